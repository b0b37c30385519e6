"""A run's events to whoever tracks it: sinks are opened, fed and closed, and one that fails is left out."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

from polytask.choices import Tracker
from polytask.errors import UserError
from polytask.files import write_bytes
from polytask.train.events import Listener
from polytask.train.tracking.mlflow import MlflowSink
from polytask.train.tracking.sink import Followed, Sink, measured
from polytask.train.tracking.tensorboard import TensorboardSink
from polytask.train.tracking.wandb import WandbSink

SINKS: dict[Tracker, Callable[[Followed], Sink]] = {
    "tensorboard": TensorboardSink,
    "mlflow": MlflowSink,
    "wandb": WandbSink,
}
IDS = "tracking.json"  # in the run folder: how each sink calls the run, so that a resumed one goes on there


def check_trackers(names: Sequence[Tracker]) -> None:
    """Refuse a sink whose package is not installed, before anything is trained."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        told = f"tracking: {', '.join(missing)} cannot be used: install with pip install {' '.join(missing)}"
        raise UserError(f"{told}.")


@contextmanager
def followed(
    names: Sequence[Tracker], folder: Path, settings: Mapping[str, Any], listener: Listener
) -> Iterator[Listener]:
    """A listener that passes each event on to the one given and to every sink."""
    following = _Following(folder, listener)
    for name in names:
        following.open(name, settings)
    try:
        yield following
    except BaseException:
        following.close(failed=True)
        raise
    following.close(failed=False)


@final
class _Following:
    """The sinks of one run; what goes wrong in one is said once, and training goes on without it."""

    def __init__(self, folder: Path, listener: Listener) -> None:
        self._folder = folder
        self._listener = listener
        self._sinks: dict[Tracker, Sink] = {}

    def __call__(self, event: dict[str, Any]) -> None:
        self._listener(event)
        values = measured(event)
        if values:
            for name in list(self._sinks):
                self._safely(name, lambda sink: sink.write(values, int(event["update"])))

    def open(self, name: Tracker, settings: Mapping[str, Any]) -> None:
        known = _read_ids(self._folder)
        try:
            sink = SINKS[name](Followed(self._folder, dict(settings), known.get(name)))
        except Exception as error:  # whatever a tracker does wrong, the training is what counts
            self._leave_out(name, error)
            return
        self._sinks[name] = sink
        if sink.key is not None and sink.key != known.get(name):
            write_bytes(self._folder / IDS, (json.dumps({**known, name: sink.key}, indent=2) + "\n").encode())

    def close(self, failed: bool) -> None:
        for name in list(self._sinks):
            self._safely(name, lambda sink: sink.close(failed))

    def _safely(self, name: Tracker, deed: Callable[[Sink], None]) -> None:
        try:
            deed(self._sinks[name])
        except Exception as error:
            del self._sinks[name]
            self._leave_out(name, error)

    def _leave_out(self, name: Tracker, error: Exception) -> None:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        message = (
            f"{name} failed and is left out from here on ({lines[0][:200]}); events.jsonl has everything."
        )
        self._listener({"event": "warning", "message": message})


def _read_ids(folder: Path) -> dict[str, str]:
    try:
        found = json.loads((folder / IDS).read_bytes())
        return {str(name): str(key) for name, key in found.items()}
    except (OSError, ValueError, AttributeError):
        return {}
