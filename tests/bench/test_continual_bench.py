"""The sequence benchmark's table follows from its results."""

from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """`bench` is run from the root of a checkout and not installed."""
    monkeypatch.syspath_prepend(ROOT)


def result(method: str, seed: int, lost: float) -> dict[str, Any]:
    """A result in which SST lost twice `lost` and Quora nothing."""
    return {
        "method": method,
        "seed": seed,
        "updates": 100,
        "stages": [{"sst": 0.5}, {}, {"sst": 0.5 - 2 * lost, "quora": 0.8, "sts": 0.8}],
        "backward": {"sst": -2 * lost, "quora": 0.0},
        "changed_rows": {},
        "seconds": [9.0, 10.0, 20.0],
    }


def test_what_is_kept_is_a_share_of_what_naive_training_loses() -> None:
    from bench.continual import summarise

    lost = {"naive": (0.10, 0.08, 0.12), "gem": (0.03, 0.02, 0.04), "adapter": (0.0, 0.0, 0.0)}
    results = [result(method, seed, values[seed]) for method, values in lost.items() for seed in range(3)]
    found = summarise(results)
    assert found["naive"]["lost"] == pytest.approx((0.1, 0.02 / 3**0.5))
    assert found["gem"]["kept"][0] == pytest.approx(0.7)
    # Leaving out one seed after another gives 0.7, 0.6818 and 0.7222.
    assert found["gem"]["kept"][1] == pytest.approx(0.0234, abs=1e-4)
    assert found["adapter"]["kept"] == pytest.approx((1.0, 0.0))
    assert found["gem"]["seconds"] == (30.0, 0.0)
    assert "agem" not in found


def test_every_method_has_a_recipe_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.continual import DEV_ROWS, METHODS, recipe_of

    (tmp_path / "ids-sst-dev.csv").write_text("\tid\tsentence\tsentiment\n" + "0\ta\tgood\t1\n" * 2000)
    monkeypatch.setenv("POLYTASK_DATA", str(tmp_path))
    for method in METHODS:
        recipe = recipe_of("sst", method, 1, 100, tmp_path / "work")
        assert recipe.phases[0].memory.kind == (method if method in ("gem", "agem", "replay") else "keep")
        assert (recipe.phases[0].train == ("adapters",)) == (method == "adapter")
    assert len((tmp_path / "work" / "sst-dev.csv").read_text().splitlines()) == DEV_ROWS + 1
