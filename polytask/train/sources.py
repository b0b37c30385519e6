"""Where task gradients come from: each shared parameter collects its own, a row at a time.

A row is one task of an update. `Dense` keeps a row's whole gradient. `Words` keeps only the embeddings that a
row touched. `Traced` keeps a linear layer's inputs and output gradients instead of the gradient itself, which
is their product: it never holds more than one layer's task gradients at once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from polytask.train.parallel import World
from polytask.train.phases import layer_of

CHUNK = 65_536  # elements of each row that stay in a core's cache together
SHORT = 4096  # elements that cost nothing more in fp64
FEW = 4  # rows for which pairwise dot products are faster than a product of thin matrices


def gram_of(rows: list[Tensor]) -> Tensor:
    """The dot products of K gradients of one tensor, fp64 [K, K]."""
    flat = [row.flatten() for row in rows]
    gram = torch.zeros(len(flat), len(flat), dtype=torch.float64)
    if len(flat) > FEW or flat[0].dtype != torch.float32 or flat[0].numel() <= CHUNK:
        for start in range(0, flat[0].numel(), CHUNK):
            part = torch.stack([row[start : start + CHUNK] for row in flat]).float()
            part = part.double() if part.shape[1] <= SHORT else part
            gram += (part @ part.T).double().cpu()
        return gram
    for i, first in enumerate(flat):
        for j, second in enumerate(flat[i:], start=i):
            gram[i, j] = gram[j, i] = torch.dot(first, second).double()
    return gram


class Source(ABC):
    """One shared parameter and what each row has collected of its gradient."""

    def __init__(self, parameter: Tensor, world: World) -> None:
        self.parameter = parameter
        self.world = world

    @abstractmethod
    def collect(self, row: int) -> None:
        """Add what the last backward passes left to a row."""

    @abstractmethod
    def present(self) -> bool:
        """Whether any row has a gradient."""

    @abstractmethod
    def gram(self, num_rows: int) -> Tensor:
        """The dot products of all rows, fp64 [K, K]."""

    @abstractmethod
    def combine(self, weights: Tensor) -> None:
        """Make the weighted sum of the rows the parameter's gradient, and forget the rows."""

    @abstractmethod
    def close(self) -> None:
        """Leave the model as it was."""


@final
class Dense(Source):
    """A parameter whose rows are whole gradients, in fp32 or bf16."""

    def __init__(self, parameter: nn.Parameter, world: World, dtype: torch.dtype = torch.float32) -> None:
        super().__init__(parameter, world)
        self._dtype = dtype
        self._rows: dict[int, Tensor] = {}

    def collect(self, row: int) -> None:
        gradient, self.parameter.grad = self.parameter.grad, None
        if gradient is None:
            return
        if row in self._rows:
            self._rows[row].add_(gradient)
        else:
            self._rows[row] = gradient.to(self._dtype)

    def present(self) -> bool:
        return bool(self._rows)

    def gram(self, num_rows: int) -> Tensor:
        for row in range(num_rows):
            if row not in self._rows:
                self._rows[row] = torch.zeros_like(self.parameter, dtype=self._dtype)
        self.world.sum(list(self._rows.values()))
        return gram_of([self._rows[row] for row in range(num_rows)])

    def combine(self, weights: Tensor) -> None:
        parts = [
            (self._rows[row], weight) for row, weight in enumerate(weights.tolist()) if row in self._rows
        ]
        self._rows = {}
        (first, weight), *others = parts
        total = first.float().mul_(weight)  # the row itself where it is fp32: nothing else needs it any more
        for row, weight in others:
            total.add_(row, alpha=weight)
        self.parameter.grad = total

    def close(self) -> None:
        """Nothing was changed."""


@final
class Words(Source):
    """The word embeddings, of which a row touches few: their numbers and gradients are all that is kept."""

    def __init__(self, embedding: nn.Embedding, world: World) -> None:
        super().__init__(embedding.weight, world)
        self._handle: RemovableHandle = embedding.register_forward_hook(self._watch)
        self.parameter.requires_grad_(False)  # autograd would make a gradient as large as the table each time
        self._seen: list[tuple[Tensor, Tensor]] = []
        self._rows: dict[int, list[tuple[Tensor, Tensor]]] = {}
        self._ids: Tensor | None = None  # of all rows, once
        self._compact: list[Tensor] = []  # each row's gradient of those
        self._table = torch.zeros_like(self.parameter)  # all zero but for the embeddings of `_filled`
        self._filled: Tensor | None = None

    def _watch(self, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
        if not torch.is_grad_enabled():
            return None
        looked_up = output.detach().requires_grad_()
        self._seen.append((inputs[0], looked_up))
        return looked_up

    def collect(self, row: int) -> None:
        for ids, looked_up in self._seen:
            if looked_up.grad is not None:
                self._rows.setdefault(row, []).append((ids.flatten(), looked_up.grad.flatten(0, 1)))
        self._seen = []

    def present(self) -> bool:
        return bool(self._rows)

    def gather(self, num_rows: int) -> list[Tensor]:
        """Each row's gradient of the embeddings that any row touched, [U, D]."""
        width = self.parameter.shape[1]
        none = [(torch.zeros(0, dtype=torch.long), torch.zeros(0, width))]
        rows = []
        for row in range(num_rows):
            parts = self._rows.pop(row, none)
            ids, values = (torch.cat([part[place] for part in parts]) for place in (0, 1))
            rows.append(self.world.gather_rows(ids, values))
        self._ids, places = torch.unique(torch.cat([ids for ids, _ in rows]), return_inverse=True)
        where = places.split([len(ids) for ids, _ in rows])
        self._compact = [
            torch.ops.aten.embedding_dense_backward(values, place, len(self._ids), -1, False)
            for (_, values), place in zip(rows, where, strict=True)
        ]
        return self._compact

    def gram(self, num_rows: int) -> Tensor:
        return gram_of(self.gather(num_rows))

    def combine(self, weights: Tensor) -> None:
        assert self._ids is not None
        if self._filled is not None:
            self._table[self._filled] = 0
        total = torch.zeros_like(self._compact[0])
        for row, weight in zip(self._compact, weights.tolist(), strict=True):
            total.add_(row, alpha=weight)
        self._table[self._ids] = total
        self._filled, self._compact = self._ids, []
        self.parameter.grad = self._table

    def close(self) -> None:
        self._handle.remove()
        self.parameter.requires_grad_(True)


@final
class Traced(Source):
    """The weight of a linear layer, whose rows are its inputs [T, I] and output gradients [T, O]."""

    def __init__(self, layer: nn.Linear, world: World, listening: Callable[[], bool]) -> None:
        super().__init__(layer.weight, world)
        self._listening = listening
        self._handle: RemovableHandle = layer.register_forward_hook(self._watch)
        self.parameter.requires_grad_(False)  # its gradient is formed here, at the end
        self._seen: list[tuple[Tensor, Tensor]] = []
        self._rows: dict[int, list[tuple[Tensor, Tensor]]] = {}

    def _watch(self, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if not output.requires_grad:
            return
        hidden = inputs[0].detach().to(output.dtype)

        def take(gradient: Tensor) -> None:
            if self._listening():
                self._seen.append((hidden.flatten(0, -2), gradient.detach().flatten(0, -2)))

        output.register_hook(take)  # type: ignore[no-untyped-call]

    def collect(self, row: int) -> None:
        if self._seen:
            self._rows.setdefault(row, []).extend(self._seen)
            self._seen = []

    def present(self) -> bool:
        return bool(self._rows)

    def gram(self, num_rows: int) -> Tensor:
        rows = []
        for row in range(num_rows):
            traces = self._rows.get(row)
            rows.append(_product(traces) if traces else torch.zeros_like(self.parameter))
        self.world.sum(rows)
        return gram_of(rows)

    def combine(self, weights: Tensor) -> None:
        factors = weights.tolist()
        scaled = [
            (hidden, gradient * factors[row])
            for row, traces in self._rows.items()
            for hidden, gradient in traces
        ]
        self._rows = {}
        total = _product(scaled) if scaled else torch.zeros_like(self.parameter)
        self.world.sum([total])
        self.parameter.grad = total

    def close(self) -> None:
        self._handle.remove()
        self.parameter.requires_grad_(True)


def _product(traces: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The weight's gradient from inputs and output gradients, fp32 [O, I]."""
    hidden, gradient = (
        torch.cat(parts) if len(parts) > 1 else parts[0] for parts in zip(*traces, strict=True)
    )
    return (gradient.T @ hidden).float()


def named_groups(names: Sequence[str], scope: str) -> list[int]:
    """The group of each tensor: all in one, one for each part of the encoder, or each its own."""
    if scope == "tensor":
        return list(range(len(names)))
    places: dict[object, int] = {}
    if scope == "whole":
        return [0] * len(names)
    return [places.setdefault(part_of(name), len(places)) for name in names]


def part_of(name: str) -> str:
    """The part of the encoder that a tensor belongs to: `layers.3`, `embeddings`, `pooler` and so on."""
    layer = layer_of(name)
    return name.split(".")[1] if layer is None else f"layers.{layer}"
