"""What happens in a run, one JSON object a line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

from polytask.files import write_bytes

Listener = Callable[[dict[str, Any]], None]


@final
class EventLog:
    """Appends events to `events.jsonl` and passes each on to whoever shows progress."""

    def __init__(self, path: Path, listener: Listener) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._listener = listener

    def write(self, event: str, **values: Any) -> None:
        """Record one event; a reader sees it at once."""
        record = {"event": event, **values}
        self._file.write(json.dumps(record, allow_nan=False) + "\n")
        self._file.flush()
        self._listener(record)

    def say(self, message: str) -> None:
        """Tell whoever shows progress what is going on, and keep no record of it."""
        self._listener({"event": "stage", "message": message})

    def close(self) -> None:
        self._file.close()


def forget_after(path: Path, update: int) -> None:
    """Drop what was logged after an update that a run is resumed from, and a last line cut in two.

    What a resumed run says again goes too: notes on its files, and the phase that begins where it goes on.
    """
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        kind, at = record.get("event"), record.get("update", 0)
        again = kind in ("done", "stopped", "note") or (kind == "phase" and at == update)
        if at <= update and not again:
            kept.append(line)
    write_bytes(path, "".join(line + "\n" for line in kept).encode())
