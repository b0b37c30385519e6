"""Ctrl-C and SIGTERM as a request to stop after the update under way."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import final


@final
class StopRequest:
    """Whether the user asked for a stop; a second Ctrl-C ends the program at once."""

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen for the signals; outside the main thread they are somebody else's business."""
        try:
            before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:
            yield
            return
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
