"""Every task trained alone by the same recipe, as often drawn as among the others, and reported beside."""

import json
import os
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from observed import read_events, stop_at
from rich.console import Console
from tiny_project import load_recipe

from polytask import api
from polytask.console import print_scores
from polytask.errors import RecipeError
from polytask.report.words import decimal
from polytask.train.single import single_recipe
from polytask.train.state import TrainingStopped

ROWS = {"mood": 100, "alike": 50, "tags": 50}
SHORT = ("phases.0.epochs=1", "phases.0.steps_per_epoch=6")


def scores_of(run: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((run / "scores.json").read_text(encoding="utf-8"))
    return document


@pytest.fixture(scope="module")
def beside(tiny: Path, shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with each task alone beside it, stopped once in the middle of the second."""
    run = tmp_path_factory.mktemp("runs") / "beside"
    recipe = load_recipe(tiny, *SHORT)
    starts: list[int] = []

    def second(event: dict[str, Any]) -> bool:
        starts.extend([1] if event["event"] == "phase" else [])
        return len(starts) == 3 and event["event"] == "phase"  # joint, mood, alike

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "POLYTASK_CACHE", str(shared_cache))
        with pytest.raises(TrainingStopped):
            api.train(recipe, run, single=True, listener=stop_at(second))
        assert set(scores_of(run)["single"]["tasks"]) == {"mood"}
        assert scores_of(run)["single"]["mean"] is None
        model = (run / "single" / "mood" / "model" / "model.safetensors").stat().st_mtime_ns
        api.train(recipe, run, single=True, resume=True)
        assert (run / "single" / "mood" / "model" / "model.safetensors").stat().st_mtime_ns == model
    return run


def test_every_task_has_a_model_of_its_own_and_its_score_beside_the_joint_one(beside: Path) -> None:
    document = scores_of(beside)
    for task in ("mood", "alike", "tags"):
        own = scores_of(beside / "single" / task)
        assert document["single"]["tasks"][task]["score"] == own["tasks"][task]["score"]
        assert document["single"]["tasks"][task]["score"] == api.evaluate(beside / "single" / task)["mean"]
        assert api.load(beside / document["single"]["tasks"][task]["model"]).tasks.keys() == {task}
        assert not (beside / "single" / task / "checkpoints").exists()
    found = document["single"]["tasks"].values()
    assert document["single"]["mean"] == pytest.approx(sum(item["score"] for item in found) / 3, abs=1e-6)


def test_a_task_alone_is_drawn_as_often_as_it_is_expected_among_the_others(beside: Path) -> None:
    for task in ("mood", "alike", "tags"):
        (phase,) = (event for event in read_events(beside / "single" / task) if event["event"] == "phase")
        assert (phase["tasks"], phase["updates"]) == ([task], 2)  # six draws among three tasks of one size


def test_the_report_and_the_console_show_each_task_alone(beside: Path) -> None:
    document = scores_of(beside)
    page = unescape((beside / "report.html").read_text(encoding="utf-8"))
    console = Console(width=120)
    with console.capture() as captured:
        print_scores(document, console)
    assert "Trained alone</th>" in page
    assert "trained alone" in captured.get()
    for item in document["single"]["tasks"].values():
        assert f">{decimal(item['score'])}</td>" in page
        assert f"{item['score']:.4f}" in captured.get()


def test_a_run_that_goes_on_without_the_word_keeps_the_scores_of_tasks_alone(
    tiny: Path, beside: Path, one_thread: None
) -> None:
    before = scores_of(beside)
    api.train(load_recipe(tiny, *SHORT), beside, resume=True)
    assert scores_of(beside) == before


@pytest.mark.parametrize(
    ("sampler", "steps", "draws"),
    [
        ('"joint"', 10, 1),
        ('"proportional"', 5, 1),  # half of ten draws
        ('{kind="proportional",draws=8}', 10, 4),
        ('{kind="weights",weights={mood=8,alike=1,tags=1}}', 8, 1),
    ],
)
def test_draws_are_those_that_the_joint_recipe_expects(
    tiny: Path, sampler: str, steps: int, draws: int
) -> None:
    recipe = load_recipe(tiny, f"phases.0.sampler={sampler}", "phases.0.steps_per_epoch=10")
    alone = single_recipe(recipe, "mood", ROWS)
    assert alone is not None
    (phase,) = alone.phases
    assert (phase.steps_per_epoch, phase.sampler.draws or 1) == (steps, draws)
    assert list(alone.tasks) == ["mood"]


def test_compromise_goes_on_averaging_its_draws(tiny: Path) -> None:
    sampler_of_17 = 'phases.0.sampler={kind="compromise",draws=17,force=true}'
    recipe = load_recipe(tiny, sampler_of_17, "phases.0.epochs=1", "phases.0.steps_per_epoch=10")
    alone = single_recipe(recipe, "mood", ROWS)
    assert alone is not None
    sampler = alone.phases[0].sampler
    assert (sampler.kind, sampler.draws, sampler.force) == ("compromise", 8, True)
    assert alone.phases[0].steps_per_epoch == 10  # of 17 draws an update 1 + 14 / 2 are its own


def test_phases_and_patterns_of_other_tasks_fall_away(tiny: Path) -> None:
    recipe = load_recipe(
        tiny,
        'phases.0.tasks=["alike","mood"]',
        'phases.0.loss_weights={kind="fixed",weights={alike=1,mood=2}}',
        'phases.1.tasks=["alike"]',
        'phases.2.train=["heads.task-mood.*","heads.task-alike.*"]',
        'phases.3.train=["heads.task-alike.*"]',
    )
    mood, tags = single_recipe(recipe, "mood", ROWS), single_recipe(recipe, "tags", ROWS)
    assert mood is not None
    assert [phase.train for phase in mood.phases] == [("all",), ("heads.task-mood.*",)]
    assert mood.phases[0].loss_weights.kind == "none"
    assert tags is None
    assert type(mood).from_dict(mood.model_dump(mode="json"), base=tiny).phases == mood.phases


def test_a_recipe_that_is_wrong_trains_nothing_alone(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError):
        api.train(load_recipe(tiny, "phases.0.train=top-9"), tmp_path / "run", single=True)
    assert not (tmp_path / "run").exists()
