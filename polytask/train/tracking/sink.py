"""What a sink is, and the numbers that it is given of an event."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Followed:
    """The run that a sink follows: its folder, its recipe, and its key in the sink if it was there before."""

    folder: Path
    settings: dict[str, Any]
    key: str | None


class Sink(ABC):
    """Where the numbers of a run go besides `events.jsonl`."""

    key: str | None = None  # how the sink calls the run, where it has to be told to go on with it

    @abstractmethod
    def write(self, values: Mapping[str, float], update: int) -> None:
        """Keep the values of one update."""

    @abstractmethod
    def close(self, failed: bool) -> None:
        """Bring everything to where it is kept."""


def measured(event: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of an event by name, such as `loss/sst`; nothing for events without any."""
    match event["event"]:
        case "update":
            losses = {f"loss/{task}": loss for task, loss in event["losses"].items()}
            speed = event["tokens"] / max(event["seconds"], 1e-9)
            values = {"lr": event["lr"], "epoch": event["epoch"], "tokens_per_second": speed}
            return {**losses, **values}
        case "evaluate":
            scores = {f"dev/{task}": score for task, score in event["scores"].items()}
            return {**scores, "dev/mean": event["mean"]}
    return {}


def flat(settings: Mapping[str, Any], lead: str = "") -> dict[str, str]:
    """Nested settings as one table of words: `phases.0.lr` -> `5e-05`."""
    found: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, list) and any(isinstance(item, dict) for item in value):
            value = {str(number): item for number, item in enumerate(value)}
        if isinstance(value, dict):
            found |= flat(value, f"{lead}{key}.")
        else:
            found[f"{lead}{key}"] = str(value)
    return found
