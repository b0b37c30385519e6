"""How the task-specific layers of several tasks share one batch: each works on its own rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from polytask.model.attention import score_dtype


@dataclass(frozen=True)
class TaskRows:
    """The rows of each task in a batch that is sorted by task: their numbers, in the order of `tasks`."""

    tasks: tuple[str, ...]
    sizes: tuple[int, ...]

    def slices(self) -> dict[str, slice]:
        """Where each task's rows are."""
        found, start = {}, 0
        for task, size in zip(self.tasks, self.sizes, strict=True):
            found[task] = slice(start, start + size)
            start += size
        return found


@final
class GroupedLinear:
    """Each task's own linear layer on its own rows of `hidden` [B, L, D].

    Tasks with equally many rows become one batched product; their weights are put together once a batch,
    however many layers of the encoder they serve. Otherwise the products go one after another.
    """

    def __init__(self, layers: Sequence[nn.Module], rows: TaskRows) -> None:
        self._layers = [layer for layer in layers if isinstance(layer, nn.Linear)]
        self._sizes = list(rows.sizes)
        self._stacked: tuple[Tensor, Tensor] | None = None
        assert len(self._layers) == len(self._sizes)

    def __call__(self, hidden: Tensor) -> Tensor:
        if len(self._layers) == 1:
            return self._layers[0](hidden)
        if len(set(self._sizes)) > 1:
            # Splitting, unlike slicing, has a backward pass of one concatenation.
            parts = torch.split(hidden, self._sizes)
            return torch.cat([layer(part) for layer, part in zip(self._layers, parts, strict=True)])
        if self._stacked is None:
            weights = torch.stack([layer.weight for layer in self._layers]).mT  # [K, D, O]
            biases = torch.stack([layer.bias for layer in self._layers])[:, None]  # [K, 1, O]
            # Cast once here: autocast keeps only parameters, and would cast these for every layer they serve.
            dtype = score_dtype(hidden)
            self._stacked = weights.to(dtype), biases.to(dtype)
        weights, biases = self._stacked
        groups = hidden.reshape(len(self._layers), -1, hidden.shape[-1])  # [K, B/K * L, D]
        return torch.baddbmm(biases, groups, weights).view(*hidden.shape[:-1], -1)


def grouped_norm(hidden: Tensor, layers: Sequence[nn.Module], rows: TaskRows) -> Tensor:
    """Each task's own layer norm on its own rows."""
    return by_task(lambda number, own: layers[number](own), hidden, rows)


def by_task(function: Callable[[int, Tensor], Tensor], hidden: Tensor, rows: TaskRows) -> Tensor:
    """`function(number of the task, its rows)` for each task, put together again."""
    if len(rows.sizes) == 1:
        return function(0, hidden)
    return torch.cat(
        [function(number, part) for number, part in enumerate(torch.split(hidden, list(rows.sizes)))]
    )


def small_linear(
    num_inputs: int, num_outputs: int, generator: torch.Generator, *, zero: bool = False
) -> nn.Linear:
    """A linear layer as BERT starts one, N(0, 0.02) and bias 0; or all zero, so that it adds nothing."""
    layer = nn.Linear(num_inputs, num_outputs)
    if zero:
        nn.init.zeros_(layer.weight)
    else:
        nn.init.normal_(layer.weight, std=0.02, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer
