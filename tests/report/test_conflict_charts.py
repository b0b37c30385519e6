"""Looks at the tasks' gradients become maps and curves; what cannot be right is left out."""

import json
from pathlib import Path
from typing import Any

import pytest
from fake_run import write_run
from test_page import Parts, charts_in, read

from polytask.report import write_report
from polytask.report.conflict_charts import conflict_layers, conflict_matrix, norm_curve
from polytask.report.read import Run, read_run

LOOK = {"event": "conflict", "phase": 0, "pairs_in_conflict": 0.5, "tensors_in_conflict": 0.25}


def write_looks(folder: Path, *looks: dict[str, Any]) -> Path:
    run = write_run(folder, ["sst", "quora", "sts"], updates=20)
    with (run / "events.jsonl").open("a") as file:
        for number, look in enumerate(looks, 1):
            file.write(json.dumps({**LOOK, "update": 10 * number, **look}) + "\n")
    return run


def rows_of(spec: Any) -> list[dict[str, Any]]:
    (rows,) = spec["datasets"].values()
    found: list[dict[str, Any]] = rows
    return found


def look(tasks: list[str], *cosines: float, ratio: float = 1.0) -> dict[str, Any]:
    layers = {"embeddings": [*cosines], "layers.0": [-each for each in cosines]}
    return {"tasks": tasks, "cosines": [*cosines], "layers": layers, "norm_ratio": ratio}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    three = look(["sst", "quora", "sts"], 0.1, -0.3, 0.2)
    return read_run(write_looks(tmp_path / "run", three, look(["sts", "quora"], 0.4)))


def test_a_pair_is_the_mean_of_its_looks_whichever_comes_first(run: Run) -> None:
    rows = rows_of(conflict_matrix(run))
    found = {(row["a"], row["b"]): row["cosine"] for row in rows}
    assert found["sst", "sts"] == found["sts", "sst"] == -0.3
    assert found["quora", "sts"] == found["sts", "quora"] == pytest.approx(0.3)


def test_layers_are_shown_for_the_pairs_that_conflict_most_first(run: Run) -> None:
    spec = conflict_layers(run)
    assert spec
    rows = {(row["layer"], row["pair"]): row["cosine"] for row in rows_of(spec)}
    assert rows["embeddings", "sst · sts"] == -0.3
    assert rows["layers.0", "sst · sts"] == 0.3
    assert len(rows) == 6


def test_a_plain_sum_has_no_curve_of_its_length(run: Run, tmp_path: Path) -> None:
    assert norm_curve(run) is None
    combined = write_looks(tmp_path / "combined", look(["sst", "sts"], -0.5, ratio=0.8))
    assert rows_of(norm_curve(read_run(combined))) == [{"update": 10, "ratio": 0.8}]


def test_a_look_that_does_not_add_up_is_not_used(tmp_path: Path) -> None:
    short = {"tasks": ["a", "b", "c"], "cosines": [0.1]}
    run = read_run(write_looks(tmp_path, short, {"tasks": ["a"], "cosines": []}))
    assert run.conflicts == []
    assert any("2 lines that could not be read" in line for line in run.missing)


def test_the_page_shows_maps_and_the_verdict(tmp_path: Path) -> None:
    run = write_looks(tmp_path / "run", look(["sst", "quora", "sts"], 0.1, -0.3, 0.2, ratio=0.9))
    scores = json.loads((run / "scores.json").read_text())
    scores["conflict"] = {"looks": 1, "verdict": "In 1 look <b>half</b> of the pairs were in conflict."}
    (run / "scores.json").write_text(json.dumps(scores))
    html = read(write_report(run))
    assert "In 1 look <b>half</b> of the pairs" in Parts(html).text
    assert [part in html for part in ('id="conflict"', "Between tasks", "By layer", "In conflict")] == [
        True
    ] * 4
    says = [chart["description"] for chart in charts_in(html)]
    assert sum("cosines" in each for each in says) == 2


def test_thirty_tasks_stay_within_bounds(tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(30)]
    many = look(names, *([0.1, -0.2, 0.05] * 145))
    run = read_run(write_looks(tmp_path, many, many))
    layers = rows_of(conflict_layers(run))
    assert len({row["pair"] for row in layers}) == 16
    assert len(rows_of(conflict_matrix(run))) == 30 * 29


def test_without_looks_there_is_no_section(tmp_path: Path) -> None:
    html = read(write_report(write_run(tmp_path, ["sst", "sts"], updates=6)))
    assert 'id="conflict"' not in html
