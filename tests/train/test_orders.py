"""Orders of training: one phase after another, what each does to the others' tasks, and what is reported."""

import json
import re
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from observed import assert_same_run, observe, read_events, stop_at
from rich.console import Console
from tiny_project import load_recipe
from torch import Tensor

from polytask import api
from polytask.console import print_scores
from polytask.errors import RecipeError
from polytask.evaluate.scoring import TaskScore
from polytask.model.multitask import MultitaskModel
from polytask.train import running as running_module
from polytask.train.loop import Training
from polytask.train.phases import first_position, select_trainable
from polytask.train.running import RunningPhase
from polytask.train.state import TrainingStopped

STEPS = ("epochs=1", "steps_per_epoch=4", "batch_size=8")
TASKS = ("mood", "alike", "tags")
SEQUENCE = tuple(
    change
    for number, task in enumerate(TASKS)
    for change in (
        f'phases.{number}.tasks=["{task}"]',
        *(f"phases.{number}.{step}" for step in (*STEPS, "lr=1e-2")),
    )
)


def begins(phase: int, event: dict[str, Any]) -> bool:
    return event["event"] == "phase" and bool(event["phase"] == phase)


def scores_of(run: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    return document


@pytest.fixture(scope="module")
def sequence(tiny: Path, shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of one task after another."""
    run = tmp_path_factory.mktemp("runs") / "sequence"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYTASK_CACHE", str(shared_cache))
        api.train(load_recipe(tiny, *SEQUENCE), run)
    return run


def test_a_sequence_reports_the_scores_of_all_tasks_after_each_stage(sequence: Path) -> None:
    found = scores_of(sequence)["transfer"]
    assert [stage["tasks"] for stage in found["stages"]] == [[], ["mood"], ["alike"], ["tags"]]
    evaluated = [event["scores"] for event in read_events(sequence) if event["event"] == "evaluate"]
    assert [stage["scores"] for stage in found["stages"][1:]] == evaluated
    matrix = [stage["scores"] for stage in found["stages"]]
    assert found["backward"]["mood"] == pytest.approx(matrix[3]["mood"] - matrix[1]["mood"], abs=2e-6)
    assert found["forward"]["tags"] == pytest.approx(matrix[2]["tags"] - matrix[0]["tags"], abs=2e-6)
    assert set(found["forgetting"]) == {"mood", "alike"}
    assert set(found["forward"]) == {"alike", "tags"}


def test_the_report_and_the_console_show_the_matrix(sequence: Path) -> None:
    found = scores_of(sequence)
    page = unescape((sequence / "report.html").read_text(encoding="utf-8"))
    table = re.search(r"<h2[^>]*>Stages</h2>.*?</table>", page, re.DOTALL)
    assert table is not None
    assert "Scores of all tasks after each stage" in page
    console = Console(width=120)
    with console.capture() as captured:
        print_scores(found, console)
    for shown in (table[0], captured.get()):
        for row in ("before training", "after mood", "after tags", "forgetting", "backward", "forward"):
            assert row in shown
    assert f"{found['transfer']['stages'][1]['scores']['mood']:.3f}" in table[0]
    assert f"{found['transfer']['stages'][1]['scores']['mood']:.4f}" in captured.get()


def test_a_sequence_stopped_in_every_phase_ends_with_the_same_matrix_and_weights(
    tiny: Path, sequence: Path, one_thread: None, tmp_path: Path
) -> None:
    recipe, run = load_recipe(tiny, *SEQUENCE), tmp_path / "run"
    for phase in range(3):
        listener = stop_at(partial(begins, phase))
        with pytest.raises(TrainingStopped):
            api.train(recipe, run, resume=phase > 0, listener=listener)
    api.train(recipe, run, resume=True)
    assert_same_run(run, sequence)


def test_phases_that_all_train_every_task_have_no_matrix(trained: Path) -> None:
    assert "transfer" not in scores_of(trained)
    assert "<h2>Stages</h2>" not in (trained / "report.html").read_text(encoding="utf-8")


def test_the_log_names_every_phase_once_however_often_the_run_was_stopped(
    tiny: Path, one_thread: None, tmp_path: Path
) -> None:
    recipe, run = load_recipe(tiny, *SEQUENCE), tmp_path / "run"
    for stopped in range(3):  # right after the last update of a phase, before the next begins
        listener = stop_at(lambda event: event["event"] == "evaluate")
        with pytest.raises(TrainingStopped):
            api.train(recipe, run, resume=stopped > 0, listener=listener)
    api.train(recipe, run, resume=True)
    assert [event["phase"] for event in read_events(run) if event["event"] == "phase"] == [0, 1, 2]


def test_patience_counts_an_error_that_falls_as_a_gain(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = iter([4.0, 3.0, 2.0, 2.5, 2.2, 1.0])

    def found(training: Training, split: str) -> dict[str, TaskScore]:
        return {"alike": TaskScore("mse", next(errors), 1, {})}

    monkeypatch.setattr(Training, "score", found)
    recipe = load_recipe(project, "phases.0.epochs=9", "phases.0.patience=2", "phases.0.steps_per_epoch=1")
    seen = observe(recipe, project / "run", monkeypatch)
    assert [event["scores"]["alike"] for event in seen.named("evaluate")] == [4.0, 3.0, 2.0, 2.5, 2.2]


@pytest.mark.parametrize(
    ("sizes", "drawn", "first"),
    [((8, 8), 5, 5), ((8, 4), 0, 0), ((8, 4), 5, 13), ((8, 4), 7, 13), ((8, 4), 8, 26), ((4, 8), 13, 7)],
)
def test_a_phase_with_batches_of_another_size_begins_with_a_whole_pass(
    tiny: Path, sizes: tuple[int, int], drawn: int, first: int
) -> None:
    changes = [f"phases.{number}.batch_size={size}" for number, size in enumerate(sizes)]
    recipe = load_recipe(tiny, *changes, 'phases.2.tasks=["mood"]', "phases.2.batch_size=1")
    assert first_position(recipe, 1, "mood", 50, drawn) == first
    assert first_position(recipe, 0, "mood", 50, 0) == 0


def test_a_task_that_a_phase_cannot_train_is_named(project: Path) -> None:
    cosine = ("tasks.alike.head=cosine", "tasks.alike.pairs=separate", "tasks.alike.pooling=mean")
    with pytest.raises(RecipeError, match=r"phases\.0\.train moves nothing that task 'alike' depends on"):
        api.train(
            load_recipe(project, *cosine, "phases.0.train=heads", "phases.0.sampler=joint"), project / "run"
        )


def test_layers_come_in_one_by_one_from_the_top(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    update = RunningPhase.update
    moved: list[set[str]] = []

    def watched(running: RunningPhase) -> object:
        before = {name: value.detach().clone() for name, value in running.part.named.items()}
        combined = update(running)
        names = {name for name, value in running.part.named.items() if not value.equal(before[name])}
        moved.append({".".join(name.split(".")[: 3 if ".layers." in name else 2]) for name in names})
        return combined

    monkeypatch.setattr(RunningPhase, "update", watched)
    steps = ("phases.0.epochs=1", "phases.0.steps_per_epoch=8", "phases.0.sampler=joint")
    api.train(load_recipe(project, *steps, "phases.0.unfreeze=0.5"), project / "run")
    heads = {f"heads.task-{task}" for task in TASKS}
    upper, lower = heads | {"encoder.layers.1"}, heads | {"encoder.layers.1", "encoder.layers.0"}
    assert moved == [heads, heads, upper, lower, *[lower | {"encoder.embeddings"}] * 4]


@pytest.mark.parametrize(("begin", "taken"), [("best", 0), ("last", 2)])
def test_a_phase_begins_with_the_best_weights_so_far_or_the_last(
    project: Path, monkeypatch: pytest.MonkeyPatch, begin: str, taken: int
) -> None:
    scores = iter([0.9, 0.2, 0.1, 0.3])

    def found(training: Training, split: str) -> dict[str, TaskScore]:
        score = next(scores)
        return {name: TaskScore("accuracy", score, 1, {}) for name in training.data}

    started: list[dict[str, Tensor]] = []

    def watched(model: MultitaskModel, *given: Any) -> Any:
        started.append({name: value.clone() for name, value in model.state_dict().items()})
        return select_trainable(model, *given)

    monkeypatch.setattr(Training, "score", found)
    monkeypatch.setattr(running_module, "select_trainable", watched)
    steps = (
        "phases.0.epochs=3",
        "phases.0.steps_per_epoch=2",
        "phases.1.epochs=1",
        "phases.1.steps_per_epoch=1",
    )
    recipe = load_recipe(project, *steps, f"phases.1.begin={begin}")
    seen = observe(recipe, project / "run", monkeypatch)
    assert all(value.equal(seen.at_evaluations[taken][name]) for name, value in started[1].items())
    assert not all(value.equal(seen.at_evaluations[2 - taken][name]) for name, value in started[1].items())
