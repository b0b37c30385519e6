"""Which of the waiting rows go through the model together."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

PADDING = 0.25  # of a batch's real tokens that may be padding
FREE_PADDING = 64  # tokens: about what the fixed cost of another model call is worth
LOOK = 512  # rows from the front that are looked at


class Waiting(Protocol):
    """What a choice depends on."""

    @property
    def form(self) -> object:
        """Equal for rows that one model call can take."""

    @property
    def length(self) -> int:
        """Its tokens, about."""


R = TypeVar("R", bound=Waiting)


def pick(rows: Sequence[R], budget: int) -> list[R]:
    """The row that waits longest, and others of like length around it, within a budget of padded tokens."""
    first = rows[0]
    alike = sorted((row for row in rows if row.form == first.form), key=lambda row: row.length)
    low = alike.index(first)
    high = low + 1  # alike[low:high] are taken
    real, width = first.length, first.length
    while True:
        size = high - low + 1
        options = []
        if low > 0:
            options.append((width * size - real - alike[low - 1].length, alike[low - 1].length, width, -1))
        if high < len(alike):
            wider = alike[high].length
            options.append((wider * size - real - wider, wider, wider, 1))
        if not options:
            break
        padding, length, wide, step = min(options)
        if wide * size > budget or padding > max(FREE_PADDING, PADDING * (real + length)):
            break
        real, width = real + length, wide
        low, high = (low - 1, high) if step < 0 else (low, high + 1)
    return alike[low:high]
