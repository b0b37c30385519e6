"""AdamW with parameter groups, and the learning rate of each group at each update."""

import math
from collections.abc import Iterable, Mapping
from typing import final

import torch
from torch import nn

from polytask.recipe_phases import PhaseRecipe
from polytask.train.phases import layer_of

BETAS = (0.9, 0.999)
EPS = 1e-6  # BERT's; Adam's usual 1e-8 is noisier in the first updates


def build_optimizer(
    parameters: Mapping[str, nn.Parameter],
    phase: PhaseRecipe,
    num_layers: int = 0,
    extra: Iterable[tuple[nn.Parameter, float]] = (),
) -> torch.optim.AdamW:
    """AdamW that decays matrices, not biases and norms; `extra` are parameters with rates of their own.

    A parameter without a gradient is not touched, so a task that was not drawn does not move: neither by
    momentum nor by weight decay. Its step count stands still too.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in parameters.items():
        decay = phase.weight_decay if parameter.ndim > 1 else 0.0
        groups.setdefault((rate_scale(name, phase, num_layers), decay), []).append(parameter)
    for parameter, rate in extra:
        groups.setdefault((rate / phase.lr, 0.0), []).append(parameter)
    listed = [
        {"params": members, "scale": scale, "weight_decay": decay}
        for (scale, decay), members in groups.items()
    ]
    return torch.optim.AdamW(listed, lr=phase.lr, betas=BETAS, eps=EPS, fused=True)


def rate_scale(name: str, phase: PhaseRecipe, num_layers: int) -> float:
    """A parameter's learning rate in units of the phase's: `layer_decay` to the power of its depth.

    The top layer has depth 1, the embeddings one more than the lowest layer; what a task has alone has
    `head_lr`, and no depth.
    """
    if not name.startswith("encoder."):
        return (phase.head_lr or phase.lr) / phase.lr
    layer = layer_of(name)
    if name.startswith("encoder.embeddings."):
        layer = -1
    return 1.0 if layer is None else phase.layer_decay ** (num_layers - layer)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every group its share of the rate."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["scale"]


@final
class Schedule:
    """The rate of each update: linear warm-up, then constant, or falling to 0 in a line or a cosine."""

    def __init__(self, phase: PhaseRecipe, updates: int) -> None:
        self._lr = phase.lr
        self._kind = phase.schedule
        self._warmup = round(phase.warmup * updates)
        self._updates = updates

    def __call__(self, update: int) -> float:
        """The rate of the update with this number, counted from 0."""
        if update < self._warmup:
            return self._lr * (update + 1) / (self._warmup + 1)
        left = (self._updates - update) / max(1, self._updates - self._warmup)
        match self._kind:
            case "constant":
                return self._lr
            case "cosine":
                return self._lr * (1 - math.cos(math.pi * left)) / 2
            case _:
                return self._lr * left
