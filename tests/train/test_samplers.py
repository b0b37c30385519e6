"""Samplers follow their formulas and are pure functions of seed and progress."""

from collections import Counter

import pytest

from polytask.train.samplers import Progress, Sampler, task_shares
from polytask.update_choices import SamplerRecipe

SIZES = (7443, 13997, 5177)


def shares(kind: str, epoch: int = 0, epochs: int = 1) -> list[float]:
    return task_shares(SamplerRecipe.model_validate({"kind": kind}), SIZES, Progress(0, epoch, epochs))


def sampler(kind: str, sizes: tuple[int, ...] = SIZES, seed: int = 1) -> Sampler:
    return Sampler(SamplerRecipe.model_validate({"kind": kind}), sizes, (seed, 0))


@pytest.mark.parametrize("kind", ["round_robin", "joint"])
def test_round_robin_and_joint_share_equally(kind: str) -> None:
    assert shares(kind) == pytest.approx([1 / 3] * 3, abs=1e-12)


def test_proportional_shares_by_the_number_of_rows() -> None:
    assert shares("proportional") == pytest.approx([size / sum(SIZES) for size in SIZES], abs=1e-12)


@pytest.mark.parametrize("epochs", [2, 3, 10])
def test_annealed_sampling_goes_from_proportional_to_the_power_of_a_fifth(epochs: int) -> None:
    for epoch in range(epochs):
        power = 1 - 0.8 * epoch / (epochs - 1)
        weights = [size**power for size in SIZES]
        expected = [weight / sum(weights) for weight in weights]
        assert shares("annealed", epoch, epochs) == pytest.approx(expected, abs=1e-12)


def test_a_single_annealed_epoch_is_proportional() -> None:
    assert shares("annealed", 0, 1) == pytest.approx(shares("proportional"), abs=1e-12)


@pytest.mark.parametrize("kind", ["proportional", "annealed"])
def test_draws_come_as_often_as_the_shares_say(kind: str) -> None:
    drawer, count = sampler(kind), 4000
    drawn = Counter(drawer.draw(Progress(update, 1, 3))[0] for update in range(count))
    for task, share in enumerate(shares(kind, 1, 3)):
        error = (share * (1 - share) / count) ** 0.5
        assert abs(drawn[task] / count - share) < 4 * error


def test_round_robin_takes_every_task_in_turn() -> None:
    drawer = sampler("round_robin")
    assert [drawer.draw(Progress(update, 0, 1)) for update in range(7)] == [[0], [1], [2], [0], [1], [2], [0]]


def test_joint_draws_one_batch_of_every_task() -> None:
    drawer = sampler("joint")
    assert drawer.draws_per_update == 3
    assert drawer.draw(Progress(5, 0, 1)) == [0, 1, 2]


def test_a_draw_depends_on_the_seed_and_the_update_alone() -> None:
    draws = [sampler("proportional").draw(Progress(update, 0, 1)) for update in range(50)]
    assert draws == [sampler("proportional").draw(Progress(update, 0, 1)) for update in range(50)]
    assert draws != [sampler("proportional", seed=2).draw(Progress(update, 0, 1)) for update in range(50)]


@pytest.mark.parametrize("kind", ["round_robin", "proportional", "annealed", "joint"])
def test_a_single_task_is_always_drawn(kind: str) -> None:
    assert sampler(kind, (10,)).draw(Progress(3, 0, 2)) == [0]
