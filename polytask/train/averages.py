"""Averages of the weights over updates, which are scored and kept in the place of the last weights."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import final

import torch
from torch import Tensor, nn

from polytask.update_choices import AverageRecipe

EMA_DECAY = 0.999
MEAN_START = 0.5  # a mean over the whole phase would drag the first, untrained weights along


@final
class Average:
    """An exponential or plain mean of what a phase trains; of kind "none" it does nothing."""

    def __init__(self, recipe: AverageRecipe, parameters: Mapping[str, nn.Parameter]) -> None:
        self._kind = recipe.kind
        self._decay = EMA_DECAY if recipe.decay is None else recipe.decay
        default = MEAN_START if recipe.kind == "mean" else 0.0
        self._start = default if recipe.start is None else recipe.start
        self._parameters = dict(parameters)
        self._means: dict[str, Tensor] = {}
        self._count = 0

    @torch.no_grad()
    def add(self, share: float) -> None:
        """Take the weights in after an update; `share` of the phase is done."""
        if self._kind == "none" or share < self._start:
            return
        self._count += 1
        if not self._means:
            self._means = {name: value.detach().clone() for name, value in self._parameters.items()}
            return
        keep = 1 - 1 / self._count
        if self._kind == "ema":
            keep = min(
                self._decay, (1 + self._count) / (10 + self._count)
            )  # short at first, so that it catches up
        torch._foreach_lerp_(
            [self._means[name] for name in self._parameters], list(self._parameters.values()), 1 - keep
        )

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The average in the place of the weights."""
        if not self._means:
            yield
            return
        kept = {name: value.detach().clone() for name, value in self._parameters.items()}
        self.settle()
        try:
            yield
        finally:
            _copy(kept, self._parameters)

    def settle(self) -> None:
        """Make the average the weights for good."""
        _copy(self._means, self._parameters)

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        count = {"average.count": torch.tensor(self._count)}
        return {f"average.of.{name}": mean for name, mean in self._means.items()} | count

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """The inverse of `tensors`."""
        device = next(iter(self._parameters.values())).device
        self._count = int(tensors["average.count"])
        lead = "average.of."
        self._means = {k.removeprefix(lead): v.to(device) for k, v in tensors.items() if k.startswith(lead)}


@torch.no_grad()
def _copy(source: Mapping[str, Tensor], target: Mapping[str, nn.Parameter]) -> None:
    for name, value in source.items():
        target[name].copy_(value)
