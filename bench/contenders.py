"""What a contender is, and polytask's own: its training run as a user starts it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.quora import BATCH_SIZE, LABEL, MAX_LENGTH, TEXT, Sample
from polytask.recipe import Recipe
from polytask.train.run import train_recipe


@dataclass(frozen=True)
class Timed:
    """One training: the real tokens it went through and the seconds its updates took."""

    tokens: int
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


Contender = Callable[[Sample, int, Path], Timed]  # rows to train on for one epoch, seed, an empty folder


def polytask(encoder: Path, **changes: Any) -> Contender:
    """polytask with its defaults besides these top-level recipe keys, timed by its own events."""

    def train(sample: Sample, seed: int, folder: Path) -> Timed:
        recipe = Recipe.from_dict(
            {
                "encoder": str(encoder),
                "max_length": MAX_LENGTH,
                "seed": seed,
                "device": "cpu",
                "tasks": {"quora": {"train": str(sample.path), "text": list(TEXT), "label": LABEL}},
                "phases": [{"epochs": 1, "steps_per_epoch": sample.updates, "batch_size": BATCH_SIZE}],
                **changes,
            }
        )
        updates: list[dict[str, Any]] = []  # the event of the last update covers them all

        def listen(event: dict[str, Any]) -> None:
            if event["event"] == "update":
                updates.append(event)

        train_recipe(recipe, folder / "run", resume=False, listener=listen)
        assert updates[-1]["update"] == sample.updates
        return Timed(updates[-1]["tokens"], updates[-1]["seconds"])

    return train
