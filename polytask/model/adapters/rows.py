"""How the task-specific layers of several tasks share one batch: each works on its own rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


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


def grouped_linear(hidden: Tensor, layers: Sequence[nn.Linear], rows: TaskRows) -> Tensor:
    """Each task's own linear layer on its own rows of `hidden` [B, L, D].

    On CUDA, tasks with equally many rows become one batched product; on a CPU the products go one after
    another, which loses little there. Splitting, unlike slicing, has a backward pass of one concatenation.
    """
    if len(layers) == 1:
        return layers[0](hidden)
    if hidden.is_cuda and len(set(rows.sizes)) == 1:
        weights = torch.stack([layer.weight for layer in layers])  # [K, O, D]
        biases = torch.stack([layer.bias for layer in layers])  # [K, O]
        groups = hidden.reshape(len(layers), -1, hidden.shape[-1])  # [K, B/K * L, D]
        return (torch.bmm(groups, weights.mT) + biases[:, None]).view(*hidden.shape[:-1], -1)
    parts = torch.split(hidden, list(rows.sizes))
    return torch.cat([layer(part) for layer, part in zip(layers, parts, strict=True)])


def grouped_norm(hidden: Tensor, layers: Sequence[nn.LayerNorm], rows: TaskRows) -> Tensor:
    """Each task's own layer norm on its own rows: one normalisation, then each row its task's gains."""
    if len(layers) == 1:
        return layers[0](hidden)
    sizes = torch.tensor(rows.sizes, device=hidden.device)
    gains = torch.stack([layer.weight for layer in layers]).repeat_interleave(sizes, dim=0)  # [B, D]
    biases = torch.stack([layer.bias for layer in layers]).repeat_interleave(sizes, dim=0)
    normed = F.layer_norm(hidden, hidden.shape[-1:], eps=layers[0].eps)
    return (normed * gains[:, None] + biases[:, None]).to(hidden.dtype)


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
