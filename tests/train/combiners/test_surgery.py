"""PCGrad and Gradient Vaccine against the papers' loops over explicit gradient vectors."""

import numpy as np
import pytest
from drawn_gradients import Floats, gradients, gram_of, orders
from hypothesis import given, settings
from hypothesis import strategies as st

from polytask.train.combiners.surgery import Vaccine, pcgrad

SEEDS = st.integers(0, 1000)


def naive_pcgrad(rows: Floats, seed: int) -> Floats:
    made = rows.copy()
    for i, order in enumerate(orders(len(rows), np.random.default_rng(seed))):
        for j in order:
            dot = made[i] @ rows[j]
            if dot < 0:
                made[i] -= dot / (rows[j] @ rows[j]) * rows[j]
    return np.asarray(made.sum(axis=0))


def naive_vaccine(rows: Floats, targets: Floats, beta: float, seed: int) -> Floats:
    """One update; `targets` are changed in place."""
    made = rows.copy()
    for i, order in enumerate(orders(len(rows), np.random.default_rng(seed))):
        for j in order:
            own, other = np.linalg.norm(made[i]), np.linalg.norm(rows[j])
            if other == 0 or own <= 1e-6 * np.linalg.norm(rows[i]):
                continue
            cosine = np.clip(made[i] @ rows[j] / (own * other), -1, 1)
            target = min(targets[i, j], 1 - 1e-6)
            if cosine < target:
                wanted = target * np.sqrt(1 - cosine**2) - cosine * np.sqrt(1 - target**2)
                made[i] = made[i] + own * wanted / (other * np.sqrt(1 - target**2)) * rows[j]
            targets[i, j] = (1 - beta) * targets[i, j] + beta * cosine
    return np.asarray(made.sum(axis=0))


def assert_close(found: Floats, wanted: Floats, rows: Floats) -> None:
    assert np.abs(found - wanted).max() <= 1e-10 * np.abs(rows).sum()


@given(gradients(), SEEDS)
def test_pcgrad_is_the_loop_over_explicit_vectors_in_the_same_order(rows: Floats, seed: int) -> None:
    (weights,) = pcgrad(gram_of(rows)[None], np.random.default_rng(seed))
    assert_close(weights @ rows, naive_pcgrad(rows, seed), rows)


@given(st.lists(SEEDS, min_size=1, max_size=4), gradients(), st.sampled_from([0.01, 0.5, 1.0]))
@settings(deadline=None)
def test_vaccine_is_the_loop_over_explicit_vectors_update_after_update(
    seeds: list[int], rows: Floats, beta: float
) -> None:
    vaccine, targets = Vaccine(beta, 1, len(rows)), np.zeros((len(rows), len(rows)))
    for seed in seeds:
        now = rows + 0.3 * np.abs(rows).max(axis=1, keepdims=True) * np.random.default_rng(
            seed
        ).standard_normal(rows.shape)
        (weights,) = vaccine(gram_of(now)[None], range(len(rows)), np.random.default_rng(seed))
        # Corrections divide by what is left of a gradient, so their rounding grows with their size.
        assert_close(
            weights @ now, naive_vaccine(now, targets, beta, seed), (1 + np.abs(weights))[:, None] * now
        )
        assert vaccine.targets[0] == pytest.approx(targets, abs=1e-8)


@given(gradients(most=6), SEEDS)
def test_vaccine_without_a_past_is_pcgrad(rows: Floats, seed: int) -> None:
    grams = gram_of(rows)[None]
    vaccine = Vaccine(0.0, 1, len(rows))
    found = vaccine(grams, range(len(rows)), np.random.default_rng(seed)) @ rows
    assert_close(found, pcgrad(grams, np.random.default_rng(seed)) @ rows, rows)


def test_pcgrad_leaves_orthogonal_gradients_unchanged() -> None:
    assert pcgrad(np.diag([4.0, 1e-20, 9e20])[None], np.random.default_rng(1)).tolist() == [[1, 1, 1]]


def test_every_group_is_combined_by_itself() -> None:
    random = np.random.default_rng(1)
    rows = random.standard_normal((5, 4, 6))
    grams = rows @ rows.transpose(0, 2, 1)
    together = pcgrad(grams, np.random.default_rng(2))
    alone = [pcgrad(gram[None], np.random.default_rng(2))[0] for gram in grams]
    assert np.allclose(together, alone, rtol=1e-12)
    vaccine, single = Vaccine(0.5, 5, 4), [Vaccine(0.5, 1, 4) for _ in grams]
    for seed in range(3):
        together = vaccine(grams, range(4), np.random.default_rng(seed))
        alone = [
            one(gram[None], range(4), np.random.default_rng(seed))[0]
            for one, gram in zip(single, grams, strict=True)
        ]
        assert np.allclose(together, alone, rtol=1e-12)


def test_vaccine_remembers_pairs_of_tasks_whatever_their_place_in_an_update() -> None:
    vaccine = Vaccine(0.5, 1, 5)
    gram = np.array([[[4.0, 1.0], [1.0, 1.0]]])  # a cosine of one half
    vaccine(gram, [3, 1], np.random.default_rng(1))
    assert vaccine.targets[0, 3, 1] == vaccine.targets[0, 1, 3] == 0.25
    assert np.count_nonzero(vaccine.targets) == 2
    vaccine(gram, [1, 3], np.random.default_rng(1))
    assert vaccine.targets[0, 3, 1] == 0.375


def test_vaccine_raises_a_cosine_to_its_target() -> None:
    vaccine = Vaccine(0.0, 1, 2)
    vaccine.targets[0, 0, 1] = 0.6
    rows = np.array([[1.0, 0.0], [-0.6, 0.8]])
    (weights,) = vaccine(gram_of(rows)[None], [0, 1], np.random.default_rng(1))
    first = rows[0] + (weights[1] - 1) * rows[1]  # what task 0's gradient became: only it takes of g_1 here
    second = rows[1] + (weights[0] - 1) * rows[0]
    assert first @ rows[1] / np.linalg.norm(first) == pytest.approx(0.6)
    assert second @ rows[0] == pytest.approx(0.0)
