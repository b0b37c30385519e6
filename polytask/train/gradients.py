"""The gradient engine: K task gradients on the shared parameters, their Gram matrices, one combined gradient.

The encoder is shared; heads and task-specific layers belong to one task each and keep their own gradients.
Whatever combines the tasks is a function of their dot products, so only those leave this module, and only
weights come back: g = sum of w_k g_k, with weights of the whole model, of each layer, or of each tensor.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from polytask.model.multitask import MultitaskModel
from polytask.train.parallel import World
from polytask.train.sources import Dense, Source, Traced, Words, named_groups

SHARED = "encoder."

# Gram matrices [G, K, K] of the groups and the numbers of the K tasks -> weights [G, K]
Weigh = Callable[[Tensor, Sequence[int]], Tensor]


@dataclass(frozen=True)
class Combined:
    """How the gradients of one update became one."""

    tasks: tuple[int, ...]  # of the rows
    names: tuple[str, ...]  # of the shared tensors that any row touched
    sizes: tuple[int, ...]  # their elements
    grams: Tensor  # fp64 [P, K, K], one a tensor
    groups: tuple[int, ...]  # of each tensor
    weights: Tensor  # fp64 [G, K]


@final
class GradientEngine:
    """Collects the gradients of an update's draws and makes them one, clipped."""

    def __init__(
        self,
        model: MultitaskModel,
        parameters: Mapping[str, nn.Parameter],
        *,
        scope: str = "whole",
        lean: bool = False,
        buffers: torch.dtype = torch.float32,
        world: World | None = None,
    ) -> None:
        self.world = world or World()
        self._lean = lean
        self._own = [value for name, value in parameters.items() if not name.startswith(SHARED)]
        shared = {name: value for name, value in parameters.items() if name.startswith(SHARED)}
        self._names = list(shared)
        self._groups = named_groups(self._names, scope)
        self.num_groups = max(self._groups, default=-1) + 1
        self._sources = self._make_sources(model, shared, buffers)
        self._words = next((source for source in self._sources if isinstance(source, Words)), None)
        self._separate = lean
        self._order: list[int] = []  # the tasks of the rows
        self._current: int | None = None  # the row of the last backward pass
        self._listening = False

    def _make_sources(
        self, model: MultitaskModel, shared: Mapping[str, nn.Parameter], buffers: torch.dtype
    ) -> list[Source]:
        words = model.encoder.embeddings.words
        linears: dict[Tensor, nn.Linear] = {}
        if self._lean:
            linears = {part.weight: part for part in model.encoder.modules() if isinstance(part, nn.Linear)}
        sources: list[Source] = []
        for parameter in shared.values():
            if parameter is words.weight:
                sources.append(Words(words, self.world))
            elif parameter in linears:
                sources.append(Traced(linears[parameter], self.world, lambda: self._listening))
            else:
                sources.append(Dense(parameter, self.world, buffers))
        return sources

    def begin(self, *, separate: bool) -> None:
        """Start an update; with `separate` each task's gradient is kept apart until the end."""
        self._separate = separate or self._lean
        self._order, self._current = [], None

    def expect(self, task: int) -> None:
        """Give a drawn task its row, also in a process that has none of the draw's rows."""
        if task not in self._order:
            self._order.append(task)

    def backward(self, task: int, loss: Tensor) -> None:
        """Add the gradient of a draw to its task's."""
        self.expect(task)
        row = self._order.index(task)
        if self._separate and self._current not in (None, row):
            self._collect()
        self._current = row
        self._listening = True
        try:
            loss.backward()  # type: ignore[no-untyped-call]
        finally:
            self._listening = False
        if self._words is not None:  # at once, since the next draw's forward pass comes before `_collect`
            self._words.collect(row if self._separate else 0)

    def finish(self, weigh: Weigh | None, clip: float, scale: float = 1.0) -> Combined | None:
        """Put the combined gradient, times `scale` and clipped, where the optimiser finds it.

        Without `weigh` the gradients are added up. Returns what was combined if they were kept apart.
        """
        if not self._order:
            return None
        if self._separate:
            return self._finish_apart(weigh, clip, scale)
        self._finish_sum(clip, scale)
        return None

    def close(self) -> None:
        """Leave the model as it was."""
        for source in self._sources:
            source.close()

    def _collect(self) -> None:
        if self._current is None:  # every row of this update's draws went to other processes
            return
        for source in self._sources:
            if source is not self._words:
                source.collect(self._current)

    def _finish_sum(self, clip: float, scale: float) -> None:
        rest = [source.parameter for source in self._sources if source is not self._words]
        gradients = self.world.sum_gradients([*rest, *self._own])
        compact: list[Tensor] = []
        if self._words is not None and self.world.any([self._words.present()])[0]:
            compact = self._words.gather(1)
        factor = scale * clip_factor(scale**2 * squared_norm([*gradients, *compact]), clip)
        if factor != 1:
            torch._foreach_mul_(gradients, factor)
        if compact and self._words is not None:
            self._words.combine(torch.full((1,), factor))

    def _finish_apart(self, weigh: Weigh | None, clip: float, scale: float) -> Combined:
        self._collect()
        num_rows = len(self._order)
        flags = self.world.any([source.present() for source in self._sources])
        touched = [number for number, flag in enumerate(flags) if flag]
        grams = torch.zeros(len(touched), num_rows, num_rows, dtype=torch.float64)
        for place, number in enumerate(touched):
            grams[place] = self._sources[number].gram(num_rows)
        groups = torch.tensor([self._groups[number] for number in touched], dtype=torch.long)
        of_group = torch.zeros(self.num_groups, num_rows, num_rows, dtype=torch.float64).index_add_(
            0, groups, grams
        )
        weights = torch.ones(self.num_groups, num_rows, dtype=torch.float64)
        if weigh is not None:
            weights = weigh(of_group, self._order)
        own = self.world.sum_gradients(self._own)
        # The combined gradient's norm follows from the Gram, before the gradient itself exists.
        shared = float(torch.einsum("gk,gkl,gl->", weights, of_group, weights))
        factor = scale * clip_factor(scale**2 * (max(shared, 0.0) + squared_norm(own)), clip)
        for number in touched:
            self._sources[number].combine(weights[self._groups[number]] * factor)
        if factor != 1 and own:
            torch._foreach_mul_(own, factor)
        return Combined(
            tuple(self._order),
            tuple(self._names[number] for number in touched),
            tuple(self._sources[number].parameter.numel() for number in touched),
            grams,
            tuple(groups.tolist()),
            weights,
        )


def squared_norm(tensors: Sequence[Tensor]) -> float:
    """The square of the common norm of all tensors."""
    if not tensors:
        return 0.0
    return float(torch.stack(torch._foreach_norm(list(tensors))).square().sum())


def clip_factor(squared: float, limit: float) -> float:
    """What a gradient is multiplied by so that its norm is at most `limit`; 0 leaves it as it is."""
    return min(1.0, limit / (squared**0.5 + 1e-6)) if limit > 0 else 1.0
