"""Task-specific layers beside the encoder's own: TS(h) = V_D g(V_E h), among them projected attention layers.

h' = LN(h_ffn + h_attn + TS(h)) with h the input of the layer (Stickland & Murray 2019). g is self-attention
without its output matrix, the identity, or one feed-forward layer; V_E and V_D may be tied across layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polytask.model.adapters.rows import GroupedLinear, TaskRows, small_linear
from polytask.model.attention import attend, merge_heads, split_heads
from polytask.model.dropout import Dropout
from polytask.model.slots import NO_SLOTS, LayerSlots, Slot

Flavour = Literal["zero", "paper", "published"]


@dataclass(frozen=True)
class ParallelPlan:
    """The sizes and choices of one variant."""

    width: int
    size: int
    heads: int
    inner: Literal["attention", "identity", "feed_forward"]
    tied: bool
    layers: tuple[int, ...]
    flavour: Flavour


@final
class ParallelAdapter(nn.Module):
    """One task's V_E, g and V_D in every adapted layer."""

    def __init__(self, plan: ParallelPlan, generator: torch.Generator) -> None:
        super().__init__()
        self.plan = plan
        copies = 1 if plan.tied else len(plan.layers)
        zero = plan.flavour == "zero"
        factor = {"attention": 3, "identity": 0, "feed_forward": 1}[plan.inner]
        size = plan.size
        self.encode = nn.ModuleList(small_linear(plan.width, size, generator) for _ in range(copies))
        inner = [small_linear(size, factor * size, generator) for _ in plan.layers if factor]
        self.inner = nn.ModuleList(inner)
        self.decode = nn.ModuleList(
            small_linear(size, plan.width, generator, zero=zero) for _ in range(copies)
        )

    @staticmethod
    def slots(
        adapters: Sequence["ParallelAdapter"], num_layers: int, rows: TaskRows, dropout: Dropout | None
    ) -> list[LayerSlots]:
        """The slots of every encoder layer for the tasks of a batch."""
        added = task_specific(adapters, rows, dropout)
        return [LayerSlots(parallel=added[n]) if n in added else NO_SLOTS for n in range(num_layers)]


def task_specific(
    adapters: Sequence[ParallelAdapter], rows: TaskRows, dropout: Dropout | None
) -> dict[int, Slot]:
    """TS of every adapted layer, each task's on its own rows."""
    plan = adapters[0].plan

    def gather(name: str) -> list[GroupedLinear]:
        stacks = [getattr(adapter, name) for adapter in adapters]
        return [GroupedLinear([stack[number] for stack in stacks], rows) for number in range(len(stacks[0]))]

    encode, inner, decode = gather("encode"), gather("inner"), gather("decode")

    def slot(place: int) -> Slot:
        copy = 0 if plan.tied else place

        def added(hidden: Tensor, bias: Tensor | None) -> Tensor:
            small = encode[copy](hidden)
            match plan.inner:
                case "attention":
                    # Only the products differ between tasks: the attention itself runs once over all rows.
                    query, key, value = split_heads(inner[place](small), plan.heads)
                    small = merge_heads(attend(query, key, value, bias, dropout))
                case "feed_forward":
                    small = F.gelu(inner[place](small))
                case "identity":
                    small = F.gelu(small) if plan.flavour == "published" else small
            extra = decode[copy](small)
            return F.gelu(extra) if plan.flavour == "published" and plan.inner == "attention" else extra

        return added

    return {layer: slot(place) for place, layer in enumerate(plan.layers)}
