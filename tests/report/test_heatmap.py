"""The picture of the score matrix holds its numbers, and shades what was lost."""

from typing import Any

import pytest

from polytask.report.facts import Stage, Transfer
from polytask.report.heatmap import FAINTEST, FULLEST, score_matrix

FOUND = Transfer(
    stages=(
        Stage(tasks=(), scores={"sst": 0.2, "sts": 0.0, "valence": 2.0}),
        Stage(tasks=("sst",), scores={"sst": 0.5, "sts": 0.1, "valence": 1.5}),
        Stage(tasks=("sts", "valence"), scores={"sst": 0.35, "sts": 0.8, "valence": 0.5}),
    )
)


def rows_of(found: Transfer) -> dict[tuple[str, str], dict[str, Any]]:
    spec = score_matrix(found, ["valence"])
    assert spec is not None
    (rows,) = spec["datasets"].values()
    return {(row["stage"], row["task"]): row for row in rows}


def test_every_score_is_shaded_by_how_near_it_is_to_the_best_of_its_task() -> None:
    rows = rows_of(FOUND)
    assert len(rows) == 9
    assert rows["1  sst", "sst"]["near"] == pytest.approx(FULLEST)
    assert rows["0  untrained", "sst"]["near"] == pytest.approx(FAINTEST)
    assert rows["2  sts, valence", "sst"]["near"] == pytest.approx((FAINTEST + FULLEST) / 2)
    assert rows["2  sts, valence", "valence"]["near"] == pytest.approx(
        FULLEST
    )  # of an error, the least is the best
    assert [key for key, row in rows.items() if row["trained"]] == [
        ("1  sst", "sst"),
        ("2  sts, valence", "sts"),
        ("2  sts, valence", "valence"),
    ]


def test_noise_is_not_painted_as_forgetting() -> None:
    stages = (Stage(tasks=("sst",), scores={"sst": 0.5}), Stage(tasks=("sts",), scores={"sst": 0.499}))
    near = [row["near"] for row in rows_of(Transfer(stages=stages)).values()]
    assert max(near) - min(near) < 0.02


def test_a_task_without_a_score_has_no_cell() -> None:
    stages = (
        Stage(tasks=("sst",), scores={"sst": 0.5}),
        Stage(tasks=("sts",), scores={"sst": 0.4, "sts": 0.8}),
    )
    assert set(rows_of(Transfer(stages=stages))) == {("0  sst", "sst"), ("1  sts", "sst"), ("1  sts", "sts")}
    assert score_matrix(Transfer(stages=()), []) is None
