"""The slots of an encoder's layers, where task-specific layers go."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor, nn

Slot = Callable[[Tensor, Tensor | None], Tensor]  # hidden [B, L, D] and padding bias -> [B, L, D]


@dataclass(frozen=True)
class LayerSlots:
    """Where task-specific layers go in one layer; an empty slot costs nothing."""

    # of what the layer's attention reads; added to the layer's output, where it ends with a norm before that
    parallel: Slot | None = None
    after_attention: Slot | None = None  # replaces the attention's output before it is added
    beside_ffn: Slot | None = None  # of the feed-forward's input; added to its output
    linears: Mapping[str, Callable[[Tensor], Tensor]] = field(
        default_factory=dict
    )  # added to a linear's output


@dataclass(frozen=True)
class Slots:
    """The task-specific layers of one batch, bound to its rows."""

    layers: Sequence[LayerSlots]
    on_top: Slot | None = None
    first: int = 0  # the lowest layer with a slot in use; the number of layers where only `on_top` is
    rows: Tensor | None = None  # of the batch's sequences, those that go on from `first`; None: all, once


NO_SLOTS = LayerSlots()


def go_on_with(rows: Tensor | None, hidden: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """From here on each task has its own copy of a text that several tasks are asked of."""
    if rows is None:
        return hidden, bias
    return hidden[rows], bias[rows] if bias is not None else None


def slotted(layer: nn.Linear, hidden: Tensor, name: str, slots: LayerSlots) -> Tensor:
    """A linear layer of the encoder, with what a slot adds to it."""
    extra = slots.linears.get(name)
    return layer(hidden) if extra is None else layer(hidden) + extra(hidden)
