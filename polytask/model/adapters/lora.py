"""Low-rank changes of the encoder's linear layers, per task: y + (alpha / rank) B A x (Hu et al. 2021)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from polytask.model.adapters.rows import TaskRows, by_task
from polytask.model.slots import NO_SLOTS, LayerSlots

QKV = ("query", "key", "value")


@dataclass(frozen=True)
class LoraPlan:
    """The sizes and choices of one variant; `linears` are among query, key, value, output, up and down."""

    width: int
    ffn_width: int
    up_width: int
    rank: int
    alpha: float
    linears: tuple[str, ...]
    layers: tuple[int, ...]

    def shape(self, linear: str) -> tuple[int, int]:
        """The inputs and outputs of a linear layer."""
        wide = {"up": (self.width, self.up_width), "down": (self.ffn_width, self.width)}
        return wide.get(linear, (self.width, self.width))


@final
class LoraAdapter(nn.Module):
    """One task's A (random) and B (zero) for each adapted linear layer: it starts by changing nothing."""

    def __init__(self, plan: LoraPlan, generator: torch.Generator) -> None:
        super().__init__()
        self.plan = plan
        self.down = nn.ParameterDict()
        self.up = nn.ParameterDict()
        for linear in plan.linears:
            inputs, outputs = plan.shape(linear)
            start = torch.empty(len(plan.layers), inputs, plan.rank)
            bound = inputs**-0.5
            self.down[linear] = nn.Parameter(nn.init.uniform_(start, -bound, bound, generator=generator))
            self.up[linear] = nn.Parameter(torch.zeros(len(plan.layers), plan.rank, outputs))

    @staticmethod
    def slots(adapters: Sequence["LoraAdapter"], num_layers: int, rows: TaskRows) -> list[LayerSlots]:
        """The slots of every encoder layer for the tasks of a batch."""
        plan = adapters[0].plan
        filled = {layer: _layer_slots(adapters, place, rows) for place, layer in enumerate(plan.layers)}
        return [filled.get(number, NO_SLOTS) for number in range(num_layers)]


def _layer_slots(adapters: Sequence[LoraAdapter], place: int, rows: TaskRows) -> LayerSlots:
    plan = adapters[0].plan

    def delta(linear: str) -> Callable[[Tensor], Tensor]:
        def of_task(number: int, hidden: Tensor) -> Tensor:
            adapter = adapters[number]
            small = hidden @ adapter.down[linear][place] * (plan.alpha / plan.rank)
            return small @ adapter.up[linear][place]

        return lambda hidden: by_task(of_task, hidden, rows)

    linears = {linear: delta(linear) for linear in plan.linears if linear not in QKV}
    parts = {linear: delta(linear) for linear in plan.linears if linear in QKV}
    if parts:
        # The encoder keeps query, key and value as one matrix; a part that is not adapted gets zeros.
        def qkv(hidden: Tensor) -> Tensor:
            found = {linear: part(hidden) for linear, part in parts.items()}
            nothing = torch.zeros_like(next(iter(found.values())))
            return torch.cat([found.get(linear, nothing) for linear in QKV], dim=-1)

        linears["qkv"] = qkv
    return LayerSlots(linears=linears)
