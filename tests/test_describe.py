"""What `info --schedule` expects is what a training then draws."""

import json
from pathlib import Path

import pytest
from tiny_project import load_recipe
from typer.testing import CliRunner

from polytask import api
from polytask.cli import app
from polytask.describe import describe_schedule
from polytask.errors import UserError


@pytest.fixture
def recipe(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny recipe with an epoch of its natural length and twice the rows for one task."""
    rows = (project / "mood-train.tsv").read_text().splitlines(keepends=True)
    (project / "mood-train.tsv").write_text("".join([*rows, *rows[1:]]))
    path = project / "tiny.toml"
    path.write_text(path.read_text().replace("steps_per_epoch = 6\n", ""))
    return path


def test_shares_and_passes_of_a_round_robin_follow_by_hand(recipe: Path) -> None:
    found = describe_schedule(recipe, ["phases.0.sampler=round_robin"])
    assert found["rows"] == {"mood": 100, "alike": 50, "tags": 50}
    (phase,) = found["phases"]
    assert (phase["updates"], phase["draws"]) == (54, 54)  # two epochs of 13 + 7 + 7 batches
    for row in phase["schedule"]:
        assert row["share"] == pytest.approx(dict.fromkeys(found["rows"], 1 / 3), abs=1e-6)
        assert row["passes"] == pytest.approx({"mood": 9 / 13, "alike": 9 / 7, "tags": 9 / 7}, abs=1e-6)
    assert found["passes"]["tags"] == pytest.approx(18 / 7, abs=1e-5)


def test_phases_add_up_and_a_task_outside_them_is_not_seen(recipe: Path) -> None:
    changes = ['phases.0.tasks=["mood","tags"]', 'phases.1.tasks=["tags"]', "phases.1.epochs=4"]
    changes += ["phases.1.batch_size=8", "phases.0.epochs=1", "phases.0.sampler=proportional"]
    found = describe_schedule(recipe, changes)
    assert found["passes"]["alike"] == 0
    shares = found["phases"][0]["schedule"][0]["share"]
    assert shares == pytest.approx({"mood": 2 / 3, "tags": 1 / 3}, abs=1e-6)
    assert found["passes"]["tags"] == pytest.approx(20 / 3 / 7 + 4, abs=1e-5)


def test_shares_that_change_with_every_update_are_averaged_over_the_epoch(recipe: Path) -> None:
    each = describe_schedule(recipe, ['phases.0.sampler={kind="annealed",per="step"}', "phases.0.epochs=1"])
    share = each["phases"][0]["schedule"][0]["share"]["mood"]
    powers = [1 - 0.8 * update / 26 for update in range(27)]
    assert share == pytest.approx(sum(100**p / (100**p + 2 * 50**p) for p in powers) / 27, abs=1e-6)


def test_a_training_draws_what_the_schedule_expects(recipe: Path) -> None:
    expected = describe_schedule(recipe, ["phases.0.sampler=joint"])
    run = api.train(load_recipe(recipe.parent, "phases.0.sampler=joint"), recipe.parent / "run")
    done = json.loads((run.folder / "events.jsonl").read_text().splitlines()[-1])
    for task, rows in expected["rows"].items():
        seen = done["drawn"][task]["rows"] / rows
        assert seen == pytest.approx(expected["passes"][task], abs=8 / rows)  # at most a batch is cut short


def test_the_command_prints_and_plots_the_schedule(recipe: Path) -> None:
    page = recipe.parent / "plan.html"
    shown = CliRunner().invoke(app, ["info", str(recipe), "--schedule", "--plot", str(page)])
    assert shown.exit_code == 0
    for words in ("phase 0: all, annealed, 54 updates, 54 draws", "share of draws", "times each is seen"):
        assert words in shown.output
    text = page.read_text(encoding="utf-8")
    assert "Times each is seen" in text
    assert '"Share of the draws of each task in each epoch."' in text
    document = CliRunner().invoke(app, ["info", str(recipe), "--schedule", "--json"])
    assert json.loads(document.output) == describe_schedule(recipe)


@pytest.mark.parametrize("plot", ["plan.pdf", "nowhere/plan.html"])
def test_a_plot_that_cannot_be_written_there_is_refused(recipe: Path, plot: str) -> None:
    failed = CliRunner().invoke(app, ["info", str(recipe), "--plot", str(recipe.parent / plot)])
    assert isinstance(failed.exception, UserError)


def test_a_folder_has_no_schedule(project: Path) -> None:
    with pytest.raises(UserError, match="--schedule belongs to a recipe"):
        describe_schedule(project)
