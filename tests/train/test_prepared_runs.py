"""A run on prepared rows: what it says, what it is scored on, and that it resumes with the same rows."""

from pathlib import Path

import pytest
from observed import read_events
from tiny_project import load_recipe

from polytask import api
from polytask.errors import UserError

SHORT = ("phases.0.epochs=1", "phases.0.steps_per_epoch=3")
PREPARED = (
    *SHORT,
    "drop_longest=0.1",
    "tasks.mood.augment=eda",
    "tasks.mood.balance=repeat",
    'tasks.mood.join=["mood-dev.tsv"]',
)


def notes(run: Path) -> list[str]:
    return [event["message"] for event in read_events(run) if event["event"] == "note"]


def test_a_run_on_prepared_rows_says_what_was_done_and_is_scored_on_dev_as_it_is(project: Path) -> None:
    run = api.train(load_recipe(project, *PREPARED), project / "run")
    said = notes(run.folder)
    assert any(note.startswith("mood train: joined 30 rows of ") for note in said)
    assert any(note.startswith("mood train: left out the 8 longest of 80 rows (over ") for note in said)
    assert "mood train: added 72 copies by EDA" in said
    assert any(note.startswith("alike train: left out the 5 longest of 50 rows") for note in said)
    assert run.scores["tasks"]["mood"]["rows"] == 30
    assert set(run.scores["tasks"]["mood"]["baselines"]) == {"majority", "tfidf"}
    done = read_events(run.folder)[-1]
    assert done["rows"]["mood"]["train"] >= 144
    assert api.evaluate(run.folder)["tasks"]["mood"]["score"] == run.scores["tasks"]["mood"]["score"]
    resumed = api.train(load_recipe(project, *PREPARED), run.folder, resume=True)
    assert resumed.scores == run.scores


def test_a_run_that_trained_on_dev_has_no_scores_and_refuses_to_make_any_of_them(project: Path) -> None:
    run = api.train(load_recipe(project, *SHORT, "train_on_dev=true"), project / "run")
    assert run.scores == {"tasks": {}, "mean": None}
    assert any(
        "the 30 dev rows are trained on, so there are no dev scores" in note for note in notes(run.folder)
    )
    assert (run.folder / "report.html").exists()
    card = (run.folder / "model" / "README.md").read_text(encoding="utf-8")
    assert "The dev rows were trained on, so nothing here measures the model." in card
    with pytest.raises(UserError, match="was trained on its dev rows"):
        api.evaluate(run.folder)
    other = api.evaluate(run.folder, task="mood", data=project / "mood-dev.tsv")
    assert other["tasks"]["mood"]["rows"] == 30


def test_the_majority_to_beat_is_that_of_the_rows_before_they_were_evened_out(project: Path) -> None:
    lines = (project / "mood-train.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    many = "".join(line for line in lines if not line.endswith("\tnegative\n"))
    few = "".join(line for line in lines if line.endswith("\tnegative\n"))
    (project / "mood-train.tsv").write_text(
        many + "".join(few.splitlines(keepends=True)[:3]), encoding="utf-8"
    )
    dev = (project / "mood-dev.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    (project / "mood-dev.tsv").write_text("".join(dev[:1] + dev[2::2] + dev[1:5:2]), encoding="utf-8")
    found = [
        api.train(load_recipe(project, *SHORT, f"tasks.mood.balance={how}"), project / how).scores
        for how in ("none", "repeat")
    ]
    majorities = [scores["tasks"]["mood"]["baselines"]["majority"] for scores in found]
    assert majorities[0] == majorities[1] > 0.5
