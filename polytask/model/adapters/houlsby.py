"""Bottlenecks in the layer (Houlsby et al. 2019): after the attention and beside the feed-forward network."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import nn
from torch.nn import functional as F

from polytask.model.adapters.parallel import Flavour, ParallelAdapter, ParallelPlan, task_specific
from polytask.model.adapters.rows import GroupedLinear, TaskRows, small_linear
from polytask.model.dropout import Dropout
from polytask.model.slots import NO_SLOTS, LayerSlots, Slot


@dataclass(frozen=True)
class HoulsbyPlan:
    """The sizes and choices of one variant."""

    width: int
    size: int
    layers: tuple[int, ...]
    flavour: Flavour
    pals: ParallelPlan | None = None  # projected attention in the place of the bottlenecks beside the FFN


@final
class HoulsbyAdapter(nn.Module):
    """One task's bottlenecks in every adapted layer: y + up(gelu(down(y))), and the same beside the FFN."""

    def __init__(self, plan: HoulsbyPlan, generator: torch.Generator) -> None:
        super().__init__()
        self.plan = plan
        zero = plan.flavour == "zero"

        def stack(num_inputs: int, num_outputs: int, *, zero: bool = False) -> nn.ModuleList:
            layers = (small_linear(num_inputs, num_outputs, generator, zero=zero) for _ in plan.layers)
            return nn.ModuleList(layers)

        self.attention_down = stack(plan.width, plan.size)
        self.attention_up = stack(plan.size, plan.width, zero=zero)
        if plan.pals is None:
            self.ffn_down = stack(plan.width, plan.size)
            self.ffn_up = stack(plan.size, plan.width, zero=zero)
        else:
            self.pals = ParallelAdapter(plan.pals, generator)

    @staticmethod
    def slots(
        adapters: Sequence["HoulsbyAdapter"], num_layers: int, rows: TaskRows, dropout: Dropout | None
    ) -> list[LayerSlots]:
        """The slots of every encoder layer for the tasks of a batch."""
        plan = adapters[0].plan
        if plan.pals is None:
            beside = {layer: _bottleneck(adapters, "ffn", layer, rows) for layer in plan.layers}
        else:
            beside = task_specific([adapter.pals for adapter in adapters], rows, dropout)

        def after(layer: int) -> Slot:
            bottleneck = _bottleneck(adapters, "attention", layer, rows)
            return lambda attended, bias: attended + bottleneck(attended, bias)

        filled = {
            layer: LayerSlots(after_attention=after(layer), beside_ffn=beside[layer]) for layer in plan.layers
        }
        return [filled.get(number, NO_SLOTS) for number in range(num_layers)]


def _bottleneck(adapters: Sequence[HoulsbyAdapter], name: str, layer: int, rows: TaskRows) -> Slot:
    place = adapters[0].plan.layers.index(layer)
    down = GroupedLinear([getattr(adapter, f"{name}_down")[place] for adapter in adapters], rows)
    up = GroupedLinear([getattr(adapter, f"{name}_up")[place] for adapter in adapters], rows)
    return lambda hidden, bias: up(F.gelu(down(hidden)))
