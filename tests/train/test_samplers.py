"""Samplers follow their formulas, draw as often as those say, and are pure functions of seed and progress."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polytask.data.batches import BatchStream
from polytask.train.samplers import Progress, Sampler, extra_shares, task_shares
from polytask.update_choices import SAMPLER_OPTIONS, SamplerRecipe

SIZES = (7443, 13997, 5177)
NAMES = ("sst", "quora", "sts")
OPTIONS: dict[str, dict[str, Any]] = {
    "power": {"power": 0.3},
    "temperature": {"temperature": 4.0},
    "weights": {"weights": {"sst": 1, "quora": 0.5, "sts": 2}},
}
KINDS = list(SAMPLER_OPTIONS)

many_sizes = st.lists(st.integers(1, 10**9), min_size=1, max_size=30)
moments = st.integers(1, 40).flatmap(lambda epochs: st.tuples(st.integers(0, epochs - 1), st.just(epochs)))


def shares(
    kind: str, sizes: Sequence[int] = SIZES, epoch: int = 0, epochs: int = 1, **more: Any
) -> list[float]:
    recipe = SamplerRecipe.model_validate({"kind": kind, **more})
    return task_shares(recipe, sizes, Progress(0, epoch, epochs), NAMES)


def sampler(kind: str, sizes: tuple[int, ...] = SIZES, seed: int = 1, **more: Any) -> Sampler:
    recipe = SamplerRecipe.model_validate({"kind": kind, **OPTIONS.get(kind, {}), **more})
    return Sampler(recipe, sizes, (seed, 0), NAMES)


def by_power(sizes: Sequence[int], power: float) -> list[float]:
    """N_i^power / sum of N_j^power, term by term in exact order."""
    return [size**power / math.fsum(other**power for other in sizes) for size in sizes]


@given(many_sizes, moments, st.floats(0, 3), st.floats(0.5, 100))
def test_shares_are_the_formulas_to_1e_12(
    sizes: list[int], moment: tuple[int, int], power: float, temperature: float
) -> None:
    epoch, epochs = moment
    alpha = 1 - 0.8 * epoch / (epochs - 1) if epochs > 1 else 1.0
    equal = [1 / len(sizes)] * len(sizes)
    expected = {
        "proportional": by_power(sizes, 1),
        "sqrt": by_power(sizes, 0.5),
        "annealed": by_power(sizes, alpha),
        **dict.fromkeys(("round_robin", "random", "joint", "cycle"), equal),
    }
    for kind, wanted in expected.items():
        assert shares(kind, sizes, epoch, epochs) == pytest.approx(wanted, abs=1e-12), kind
    assert shares("power", sizes, power=power) == pytest.approx(by_power(sizes, power), abs=1e-12)
    warm = shares("temperature", sizes, temperature=temperature)
    assert warm == pytest.approx(by_power(sizes, 1 / temperature), abs=1e-12)


@given(st.integers(1, 100_000), st.data())
def test_annealing_per_step_goes_down_evenly_over_the_updates_of_the_phase(
    updates: int, data: st.DataObject
) -> None:
    update = data.draw(st.integers(0, updates - 1))
    alpha = 1 - 0.8 * update / (updates - 1) if updates > 1 else 1.0
    recipe = SamplerRecipe(kind="annealed", per="step")
    found = task_shares(recipe, SIZES, Progress(update, 0, 1, updates))
    assert found == pytest.approx(by_power(SIZES, alpha), abs=1e-12)


def test_a_power_no_number_can_hold_is_no_trouble() -> None:
    assert shares("power", (10**9, 1), power=10) == pytest.approx([1, 0], abs=1e-12)
    assert shares("temperature", (10**9, 1), temperature=1e-6) == pytest.approx([1, 0], abs=1e-12)


@given(many_sizes, moments, st.integers(1, 64))
def test_compromise_shares_its_extra_draws_as_the_paper_says(
    sizes: list[int], moment: tuple[int, int], spare: int
) -> None:
    epoch, epochs = moment
    draws, num_tasks = len(sizes) + spare, len(sizes)
    share = by_power(sizes, 1 - 0.8 * epoch / (epochs - 1) if epochs > 1 else 1.0)
    floored = [max(0.025, (p * draws - 1) / (draws - num_tasks)) for p in share]
    extra = [p / math.fsum(floored) for p in floored]
    assert extra_shares(share, draws) == pytest.approx(extra, abs=1e-12)
    expected = [(1 + spare * p) / draws for p in extra]
    assert shares("compromise", sizes, epoch, epochs, draws=draws) == pytest.approx(expected, abs=1e-12)
    forced = [(1 + spare * p) / draws for p in share]
    assert shares("compromise", sizes, epoch, epochs, draws=draws, force=True) == pytest.approx(
        forced, abs=1e-12
    )
    if min(share) * draws - 1 >= 0.025 * spare:  # no floor: a task has just its share of all draws
        assert expected == pytest.approx(share, abs=1e-12)


@pytest.mark.parametrize("epoch", [0, 1, 4])
def test_compromise_divides_by_a_growing_power_of_the_draws(epoch: int) -> None:
    progress = Progress(0, epoch, 5)
    power = 0.2 + 0.8 * epoch / 4
    assert sampler("compromise").loss_factor(progress, 6) == pytest.approx(1 / 6**power, abs=1e-12)
    assert sampler("compromise", force=True).loss_factor(progress, 6) == pytest.approx(1 / 6, abs=1e-12)
    assert all(sampler(kind).loss_factor(progress, 6) == 1 for kind in KINDS if kind != "compromise")


def test_weights_given_by_hand_are_the_shares() -> None:
    assert shares("weights", weights={"quora": 3, "sst": 1, "sts": 0}) == pytest.approx([0.25, 0.75, 0])


@pytest.mark.parametrize(
    ("kind", "draws"),
    [("annealed", 1), *((kind, 50) for kind in KINDS if kind not in ("joint", "cycle", "compromise"))],
)
def test_100_000_draws_come_as_often_as_the_shares_say(kind: str, draws: int) -> None:
    drawer, count = sampler(kind, draws=draws), 100_000
    drawn = Counter(task for update in range(count // draws) for task in drawer.draw(Progress(update, 1, 3)))
    assert drawn.total() == count
    for task, share in enumerate(drawer.shares(Progress(0, 1, 3))):
        assert abs(drawn[task] / count - share) <= 4 * (share * (1 - share) / count) ** 0.5, task


@pytest.mark.parametrize("force", [False, True])
def test_compromise_draws_every_task_at_least_once_and_the_others_by_their_shares(force: bool) -> None:
    sizes, draws, count = (100_000, 3_000, 500), 16, 100_000 // 13
    drawer = sampler("compromise", sizes, force=force)
    updates = [drawer.draw(Progress(update, 0, 3)) for update in range(count)]
    assert all(len(update) == draws and set(update) == {0, 1, 2} for update in updates)
    drawn = Counter(task for update in updates for task in update)
    for task, share in enumerate(drawer.shares(Progress(0, 0, 3))):
        extra, spare = (share * draws - 1) / (draws - 3), (draws - 3) * count
        assert abs((drawn[task] - count) / spare - extra) <= 4 * (extra * (1 - extra) / spare) ** 0.5


@settings(max_examples=30)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=5), st.integers(1, 32), st.integers(1, 4))
def test_a_cycle_uses_the_largest_set_up_once_an_epoch(
    sizes: list[int], batch_size: int, epochs: int
) -> None:
    drawer = sampler("cycle", tuple(sizes))
    updates = drawer.updates_per_epoch(batch_size)
    assert updates == math.ceil(max(sizes) / batch_size)
    largest = sizes.index(max(sizes))
    stream = BatchStream("largest", np.ones(sizes[largest], dtype=np.int64), batch_size, 1)
    for epoch in range(epochs):
        drawn = [drawer.draw(Progress(epoch * updates + update, epoch, epochs)) for update in range(updates)]
        assert drawn == [list(range(len(sizes)))] * updates
        rows = [row for _ in drawn for row in stream.next().tolist()]
        assert sorted(rows) == list(range(sizes[largest]))


@pytest.mark.parametrize("kind", KINDS)
def test_no_row_of_any_set_comes_again_before_all_of_it_came(kind: str) -> None:
    sizes = (45, 130, 20)
    drawer = sampler(kind, sizes)
    streams = [
        BatchStream(name, np.ones(size, dtype=np.int64), 8, 1)
        for name, size in zip(NAMES, sizes, strict=True)
    ]
    seen: list[list[int]] = [[] for _ in sizes]
    for update in range(60):
        for task in drawer.draw(Progress(update, 0, 1, 60)):
            seen[task].extend(streams[task].next().tolist())
    for size, rows in zip(sizes, seen, strict=True):
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            assert len(set(part)) == len(part)


def test_round_robin_takes_every_task_in_turn() -> None:
    drawer = sampler("round_robin")
    assert [drawer.draw(Progress(update, 0, 1)) for update in range(7)] == [[0], [1], [2], [0], [1], [2], [0]]
    two = sampler("round_robin", draws=2)
    assert [two.draw(Progress(update, 0, 1)) for update in range(4)] == [[0, 1], [0, 2], [1, 2], [0, 1]]


@pytest.mark.parametrize("kind", ["joint", "cycle"])
def test_joint_draws_one_batch_of_every_task(kind: str) -> None:
    drawer = sampler(kind)
    assert drawer.draws_per_update == 3
    assert drawer.draw(Progress(5, 0, 1)) == [0, 1, 2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_draw_depends_on_the_seed_and_the_update_alone(kind: str) -> None:
    draws = [sampler(kind).draw(Progress(update, 0, 1)) for update in range(50)]
    assert draws == [sampler(kind).draw(Progress(update, 0, 1)) for update in reversed(range(50))][::-1]
    by_chance = kind not in ("round_robin", "joint", "cycle")
    other = [sampler(kind, seed=2).draw(Progress(update, 0, 1)) for update in range(50)]
    assert (draws != other) == by_chance


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "weights"])
def test_a_single_task_is_always_drawn(kind: str) -> None:
    assert set(sampler(kind, (10,)).draw(Progress(3, 0, 2))) == {0}


@pytest.mark.parametrize(
    ("kind", "updates"), [("annealed", 34), ("joint", 11), ("cycle", 20), ("compromise", 2)]
)
def test_an_epoch_draws_as_many_batches_as_the_tasks_hold(kind: str, updates: int) -> None:
    assert sampler(kind, (80, 160, 30)).updates_per_epoch(8) == updates
