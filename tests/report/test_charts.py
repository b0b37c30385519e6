"""Charts hold the run's numbers, in bounded size and with no value that JSON lacks."""

import json
from pathlib import Path

import pytest
from fake_run import write_run

from polytask.report import charts
from polytask.report.facts import Scores
from polytask.report.read import Run, read_run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return read_run(write_run(tmp_path / "run", ["sst", "quora", "valence"], updates=60, phases=2))


def values(spec: charts.Spec) -> list[charts.Spec]:
    """Every row of data of a chart."""
    return [row for rows in spec["datasets"].values() for row in rows]


def test_bars_leave_out_errors_and_keep_every_baseline(run: Run) -> None:
    assert run.scores
    spec = charts.score_bars(run.scores)
    assert spec
    rows = {(row["task"], row["of"]): row["score"] for row in values(spec)}
    assert rows[("quora", "This model")] == 0.863
    assert rows[("quora", "TF-IDF")] == 0.76
    assert not any(task == "valence" for task, _ in rows)


def test_the_ring_marks_the_last_best_evaluation(run: Run) -> None:
    run.evaluations[-1] = run.evaluations[-1].model_copy(update={"best": False})
    spec = charts.mean_curve(run)
    assert spec
    kept = [row["update"] for row in values(spec) if row.get("kept")]
    assert kept == [run.evaluations[-2].update]


def test_each_later_phase_has_its_start_marked(run: Run) -> None:
    spec = charts.rate_curve(run)
    assert spec
    starts = [row for row in values(spec) if "lr" not in row]
    assert len(starts) == 1


@pytest.mark.parametrize(("num_tasks", "mark"), [(8, "bar"), (9, "rect")])
def test_the_schedule_is_a_grid_where_colours_run_out(tmp_path: Path, num_tasks: int, mark: str) -> None:
    run = read_run(write_run(tmp_path, [f"t{n}" for n in range(num_tasks)], updates=6))
    spec = charts.schedule_chart(run)
    assert spec
    assert spec["mark"]["type"] == mark
    assert len(values(spec)) == 3 * num_tasks


def test_long_loss_curves_are_thinned_and_keep_their_end(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, ["sst"], updates=8000))
    spec = charts.loss_curve(run, "sst", num_charts=3)
    assert spec
    assert 200 < len(values(spec)) <= 501
    assert values(spec)[-1]["update"] == run.updates[-1].update


def test_a_loss_that_is_not_a_number_is_left_out(run: Run) -> None:
    broken = {"sst": float("nan"), "quora": float("inf")}
    run.updates[-1] = run.updates[-1].model_copy(update={"losses": broken})
    for task in broken:
        spec = charts.loss_curve(run, task, num_charts=3)
        json.dumps(spec, allow_nan=False)
        assert spec
        assert all(row["update"] != run.updates[-1].update for row in values(spec))


def test_smoothing_a_constant_changes_nothing() -> None:
    assert charts._smoothed([2.5] * 100) == pytest.approx([2.5] * 100)


def test_smoothing_takes_most_of_the_noise() -> None:
    noisy = [1.0 + 0.5 * (-1) ** n for n in range(400)]
    assert max(abs(value - 1) for value in charts._smoothed(noisy)[100:]) < 0.05


def test_with_nothing_to_draw_there_is_no_chart() -> None:
    empty = Run(name="empty")
    assert charts.score_bars(Scores(tasks={}, mean=0)) is None
    assert charts.mean_curve(empty) is charts.rate_curve(empty) is charts.schedule_chart(empty) is None
    assert charts.task_curve(empty, "sst") is charts.loss_curve(empty, "sst", 1) is None


def test_a_single_value_gets_a_scale_with_room_about_it() -> None:
    low, high = charts._span([0.5]).to_dict()["domain"]
    assert low < 0.5 < high


def test_the_script_cannot_end_its_own_tag() -> None:
    assert "</script" not in charts.script().lower()
