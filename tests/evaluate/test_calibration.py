"""A temperature makes confident outputs as often right as they say, and moves no answer."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from polytask.choices import HeadRecipe
from polytask.deploy.model import load
from polytask.evaluate.calibration import Calibration, calibrate, calibration_error, fit_temperature
from polytask.evaluate.metrics import Array, decide
from polytask.tasks import Floats, Task, answers

CLASSES = Task("c", "classification", 1, ("x", "y", "z"), None, "accuracy")
TAGS = Task("t", "multilabel", 1, ("x", "y", "z"), None, "f1_macro")
ROWS = 4000


def drawn(task: Task, temperature: float) -> tuple[Floats, Array]:
    """Outputs that are `temperature` times too sure, and targets drawn from what they mean without it."""
    random = np.random.default_rng(1)
    logits = random.normal(size=(ROWS, 3)).astype(np.float32) * 2
    shares = answers(task, logits)
    if task.kind == "multilabel":
        return logits * np.float32(temperature), (random.random((ROWS, 3)) < shares).astype(np.uint8)
    targets = (random.random((ROWS, 1)) > shares.cumsum(axis=1)).sum(axis=1).clip(0, 2)
    return logits * np.float32(temperature), targets


def found(task: Task, outputs: Floats, targets: Array) -> Calibration:
    calibration = calibrate(task, outputs, targets)
    assert calibration is not None
    return calibration


@pytest.mark.parametrize("task", [CLASSES, TAGS], ids=lambda task: str(task.kind))
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_temperature_of_drawn_targets_is_found_again(task: Task, temperature: float) -> None:
    outputs, targets = drawn(task, temperature)
    calibration = found(task, outputs, targets)
    assert calibration.temperature == pytest.approx(temperature, rel=0.1)
    assert calibration.error_after < 0.03
    if temperature != 1:
        assert calibration.error_before > 2 * calibration.error_after


@pytest.mark.parametrize("task", [CLASSES, TAGS], ids=lambda task: str(task.kind))
def test_no_answer_changes(task: Task) -> None:
    outputs, targets = drawn(task, 3.0)
    calibrated = replace(task, temperature=found(task, outputs, targets).temperature)
    assert np.array_equal(decide(task, answers(calibrated, outputs)), decide(task, answers(task, outputs)))


def test_outputs_that_are_always_right_get_the_lowest_temperature_and_stay_finite() -> None:
    targets = np.arange(60) % 3
    outputs = np.eye(3, dtype=np.float32)[targets]
    assert fit_temperature(CLASSES, outputs, targets) == pytest.approx(0.2, abs=0.01)
    assert fit_temperature(CLASSES, -outputs, targets) == pytest.approx(10, rel=0.05)


def test_the_error_is_the_distance_of_confidence_from_being_right() -> None:
    probabilities = np.array([[0.9, 0.1]] * 10 + [[0.6, 0.4]] * 10, dtype=np.float32)
    targets = np.array([0] * 9 + [1] + [0] * 3 + [1] * 7)
    assert calibration_error(CLASSES, probabilities, targets) == pytest.approx(
        (0 * 10 + 0.3 * 10) / 20, abs=1e-6
    )
    sure = np.array([[1.0, 0.0]], dtype=np.float32)
    assert calibration_error(TAGS, sure, np.array([[1, 0]])) == 0
    assert calibration_error(TAGS, sure, np.array([[0, 1]])) == 1


def test_what_has_no_logits_or_few_rows_is_left_alone() -> None:
    outputs, targets = drawn(CLASSES, 3.0)
    assert calibrate(CLASSES, outputs[:29], targets[:29]) is None
    cosine = replace(CLASSES, head=HeadRecipe(kind="cosine"))
    assert calibrate(cosine, outputs, targets) is None
    values = Task("v", "regression", 1, (), (0.0, 5.0), "pearson")
    assert calibrate(values, outputs[:, :1], targets.astype(np.float32)) is None


def test_a_run_ends_with_calibrated_probabilities(trained: Path, one_thread: None) -> None:
    scores = json.loads((trained / "scores.json").read_text())["tasks"]
    assert "calibration" not in scores["alike"]
    tasks = load(trained).tasks
    for name in ("mood", "tags"):
        assert set(scores[name]["calibration"]) == {"temperature", "error_before", "error_after"}
        assert tasks[name].temperature == scores[name]["calibration"]["temperature"] != 1
    assert tasks["alike"].temperature == 1
