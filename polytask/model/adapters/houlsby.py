"""Bottlenecks in the layer (Houlsby et al. 2019): after the attention and beside the feed-forward network."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polytask.model.adapters.parallel import Flavour, ParallelAdapter, ParallelPlan, task_specific
from polytask.model.adapters.rows import TaskRows, grouped_linear, small_linear
from polytask.model.dropout import Dropout
from polytask.model.encoder import LayerSlots, Slot


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
    def layer_slots(
        adapters: Sequence["HoulsbyAdapter"], layer: int, rows: TaskRows, dropout: Dropout | None
    ) -> LayerSlots:
        """The slots of one encoder layer for the tasks of a batch."""
        plan = adapters[0].plan
        if layer not in plan.layers:
            return LayerSlots()
        bottleneck = _bottleneck(adapters, "attention", layer, rows)

        def after_attention(attended: Tensor, bias: Tensor | None) -> Tensor:
            return attended + bottleneck(attended, bias)

        if plan.pals is None:
            beside = _bottleneck(adapters, "ffn", layer, rows)
        else:
            beside = task_specific([adapter.pals for adapter in adapters], layer, rows, dropout)
        return LayerSlots(after_attention=after_attention, beside_ffn=beside)


def _bottleneck(adapters: Sequence[HoulsbyAdapter], name: str, layer: int, rows: TaskRows) -> Slot:
    place = adapters[0].plan.layers.index(layer)

    def slot(hidden: Tensor, bias: Tensor | None) -> Tensor:
        down = [getattr(adapter, f"{name}_down")[place] for adapter in adapters]
        up = [getattr(adapter, f"{name}_up")[place] for adapter in adapters]
        return grouped_linear(F.gelu(grouped_linear(hidden, down, rows)), up, rows)

    return slot
