"""AdamW with parameter groups, its learning-rate schedule, and the clipping of gradients."""

from collections.abc import Iterable
from typing import final

import torch
from torch import nn

from polytask.recipe_phases import PhaseRecipe

BETAS = (0.9, 0.999)
EPS = 1e-6  # BERT's; Adam's usual 1e-8 is noisier in the first updates


def build_optimizer(parameters: Iterable[nn.Parameter], phase: PhaseRecipe) -> torch.optim.AdamW:
    """AdamW that decays matrices and leaves biases and norms alone.

    A parameter without a gradient is not touched, so a task that was not drawn does not move: neither by
    momentum nor by weight decay. Its step count stands still too.
    """
    decayed: list[nn.Parameter] = []
    plain: list[nn.Parameter] = []
    for parameter in parameters:
        (decayed if parameter.ndim > 1 else plain).append(parameter)
    groups = [{"params": decayed, "weight_decay": phase.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=phase.lr, betas=BETAS, eps=EPS, fused=True)


@final
class Schedule:
    """The learning rate of each update: linear warm-up, then constant or falling linearly to 0."""

    def __init__(self, phase: PhaseRecipe, updates: int) -> None:
        self._lr = phase.lr
        self._falling = phase.schedule == "linear"
        self._warmup = round(phase.warmup * updates)
        self._updates = updates

    def __call__(self, update: int) -> float:
        """The rate of the update with this number, counted from 0."""
        if update < self._warmup:
            return self._lr * (update + 1) / (self._warmup + 1)
        if not self._falling:
            return self._lr
        return self._lr * (self._updates - update) / max(1, self._updates - self._warmup)


def clip_gradients(parameters: Iterable[nn.Parameter], limit: float) -> None:
    """Scale all gradients so that their common norm is at most `limit`; 0 leaves them as they are."""
    if limit > 0:
        nn.utils.clip_grad_norm_([p for p in parameters if p.grad is not None], limit, foreach=True)
