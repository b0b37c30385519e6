"""Trainings of the tiny project that a test can look into and stop."""

import json
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from torch import Tensor

from polytask import api
from polytask.recipe import Recipe
from polytask.train.loop import Training

Tensors = dict[str, Tensor]
Event = dict[str, Any]


@dataclass
class Observed:
    """The weights before and after training, and what happened."""

    before: Tensors = field(default_factory=dict)
    after: Tensors = field(default_factory=dict)
    at_evaluations: list[Tensors] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def named(self, event: str) -> list[Event]:
        return [item for item in self.events if item["event"] == event]

    def moved(self) -> set[str]:
        """The parameters whose bits changed."""
        return {name for name, tensor in self.before.items() if not tensor.equal(self.after[name])}


def observe(recipe: Recipe, out: Path, patch: pytest.MonkeyPatch, *, resume: bool = False) -> Observed:
    """Train and look: the weights of `after` are the last ones, not the best."""
    seen = Observed()
    trainings: list[Training] = []
    train = Training.train

    def watched(training: Training) -> None:
        trainings.append(training)
        seen.before = snapshot(training)
        train(training)
        seen.after = snapshot(training)

    def listen(event: Event) -> None:
        seen.events.append(event)
        if event["event"] == "evaluate":
            seen.at_evaluations.append(snapshot(trainings[0]))

    with patch.context() as inner:
        inner.setattr(Training, "train", watched)
        api.train(recipe, out, resume=resume, listener=listen)
    return seen


def snapshot(training: Training) -> Tensors:
    return {name: tensor.detach().clone() for name, tensor in training.model.state_dict().items()}


def stop_at(wanted: Callable[[Event], bool]) -> Callable[[Event], None]:
    """A listener that presses Ctrl-C at the first event that is wanted."""
    pressed: list[Event] = []

    def listen(event: Event) -> None:
        if not pressed and wanted(event):
            pressed.append(event)
            signal.raise_signal(signal.SIGINT)

    return listen


def read_events(run: Path) -> list[Event]:
    return [json.loads(line) for line in (run / "events.jsonl").read_text(encoding="utf-8").splitlines()]


def last_checkpoint(run: Path) -> Tensors:
    return load_file(max((run / "checkpoints").glob("update-*.safetensors")))


def assert_same_run(found: Path, wanted: Path) -> None:
    """The same weights, optimiser and scores, bit for bit."""
    for name in (
        "model/model.safetensors",
        "model/config.json",
        "scores.json",
        max((wanted / "checkpoints").glob("best-*.safetensors")).relative_to(wanted),
    ):
        assert (found / name).read_bytes() == (wanted / name).read_bytes(), name
    checkpoint, reference = last_checkpoint(found), last_checkpoint(wanted)
    assert checkpoint.keys() == reference.keys()
    assert any(name.startswith("optimizer.") for name in reference)
    assert [name for name, tensor in reference.items() if not tensor.equal(checkpoint[name])] == []
