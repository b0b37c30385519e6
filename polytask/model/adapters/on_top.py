"""Task-specific layers on top of the encoder: projected attention, projected FFN, or a whole layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polytask.model.adapters.parallel import Flavour
from polytask.model.adapters.rows import GroupedLinear, TaskRows, by_task, grouped_norm, small_linear
from polytask.model.attention import attend, merge_heads, split_heads
from polytask.model.dropout import Dropout
from polytask.model.encoder import EncoderConfig, EncoderLayer
from polytask.model.slots import NO_SLOTS, Slot


@dataclass(frozen=True)
class TopPlan:
    """The sizes and choices of one variant."""

    inner: Literal["attention", "feed_forward", "layer"]
    size: int
    heads: int
    depth: int
    flavour: Flavour


@final
class TopAdapter(nn.Module):
    """One task's layers on top: V_D g(V_E h), g a stack of small layers; or a layer as the encoder's own.

    The paper's output takes the place of the encoder's. The flavour `zero` adds it, V_D starting at zero; a
    whole layer has no V_D, so there a gain that starts at zero fades it in: h + gain (layer(h) - h).
    """

    def __init__(self, plan: TopPlan, config: EncoderConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.plan = plan
        zero = plan.flavour == "zero"
        if plan.inner == "layer":
            self.layer = EncoderLayer(config)
            for part in self.layer.modules():
                if isinstance(part, nn.Linear):
                    nn.init.normal_(part.weight, std=0.02, generator=generator)
                    nn.init.zeros_(part.bias)
            if zero:
                self.gain = nn.Parameter(torch.zeros(()))
            return
        size = plan.size
        factor = 3 if plan.inner == "attention" else 1
        self.encode = small_linear(config.width, size, generator)
        self.inner = nn.ModuleList(small_linear(size, factor * size, generator) for _ in range(plan.depth))
        if plan.inner == "attention":
            self.output = nn.ModuleList(small_linear(size, size, generator) for _ in range(plan.depth))
        self.norm = nn.ModuleList(nn.LayerNorm(size, eps=config.norm_eps) for _ in range(plan.depth))
        self.decode = small_linear(size, config.width, generator, zero=zero)

    @staticmethod
    def on_top(adapters: Sequence["TopAdapter"], rows: TaskRows, dropout: Dropout | None) -> Slot:
        """The slot on top of the encoder for the tasks of a batch."""
        return (
            _whole_layer(adapters, rows, dropout)
            if adapters[0].plan.inner == "layer"
            else _projected(adapters, rows, dropout)
        )


def _whole_layer(adapters: Sequence[TopAdapter], rows: TaskRows, dropout: Dropout | None) -> Slot:
    def slot(hidden: Tensor, bias: Tensor | None) -> Tensor:
        biases = torch.split(bias, list(rows.sizes)) if bias is not None else [None] * len(adapters)

        def of_task(number: int, own: Tensor) -> Tensor:
            adapter = adapters[number]
            changed = adapter.layer(own, biases[number], NO_SLOTS, dropout)
            return own + adapter.gain * (changed - own) if adapter.plan.flavour == "zero" else changed

        return by_task(of_task, hidden, rows)

    return slot


def _projected(adapters: Sequence[TopAdapter], rows: TaskRows, dropout: Dropout | None) -> Slot:
    plan = adapters[0].plan

    def at(name: str, depth: int) -> list[nn.Module]:
        return [getattr(adapter, name)[depth] for adapter in adapters]

    def slot(hidden: Tensor, bias: Tensor | None) -> Tensor:
        small = GroupedLinear([adapter.encode for adapter in adapters], rows)(hidden)
        for depth in range(plan.depth):
            inner = GroupedLinear(at("inner", depth), rows)(small)
            if plan.inner == "attention":
                mixed = merge_heads(attend(*split_heads(inner, plan.heads), bias, dropout))
                inner = GroupedLinear(at("output", depth), rows)(mixed)
            else:
                inner = F.gelu(inner)
            if dropout is not None:
                inner = dropout(inner)
            small = grouped_norm(small + inner, at("norm", depth), rows)
        changed = GroupedLinear([adapter.decode for adapter in adapters], rows)(small)
        return hidden + changed if plan.flavour == "zero" else changed

    return slot
