"""Tests of differences: against scipy, worked by hand, and by simulation."""

import numpy as np
import pytest
from scipy.stats import binomtest, kstest

from polytask.evaluate.metrics import pearson
from polytask.evaluate.significance import (
    bootstrap_interval,
    holm,
    mcnemar,
    merge_p,
    standard_error,
    williams,
)


def test_the_standard_error_is_the_deviation_over_the_root_of_the_runs() -> None:
    assert standard_error([1.0, 2.0, 3.0]) == pytest.approx(1 / 3**0.5)
    assert standard_error([0.5]) is None


@pytest.mark.parametrize(("only", "only_other"), [(0, 0), (1, 0), (5, 5), (12, 4), (0, 9), (400, 350)])
def test_mcnemar_is_a_binomial_test_of_the_rows_that_one_alone_has_right(only: int, only_other: int) -> None:
    both, neither = [True] * 20, [False] * 30
    right = np.array(both + neither + [True] * only + [False] * only_other)
    other = np.array(both + neither + [False] * only + [True] * only_other)
    expected = binomtest(only, only + only_other).pvalue if only + only_other else 1.0
    assert mcnemar(right, other) == pytest.approx(expected, rel=1e-9)
    assert mcnemar(other, right) == pytest.approx(expected, rel=1e-9)


def test_williams_agrees_with_an_example_worked_by_the_formula_in_steigers_paper() -> None:
    # r = .4 and .5 with the target, .1 with each other, 103 rows: |R| = .62, t = -.8914 on 100 degrees.
    assert williams(0.4, 0.5, 0.1, 103) == pytest.approx(0.3748, abs=5e-4)
    assert williams(0.5, 0.4, 0.1, 103) == pytest.approx(williams(0.4, 0.5, 0.1, 103))


def test_williams_p_is_uniform_where_both_models_are_equally_good() -> None:
    generator = np.random.default_rng(1)
    found = []
    for _ in range(600):
        targets = generator.normal(size=80)
        shared = generator.normal(size=80)
        one, other = (targets + shared + generator.normal(size=80) for _ in range(2))
        found.append(williams(pearson(one, targets), pearson(other, targets), pearson(one, other), 80))
    assert kstest(found, "uniform").pvalue > 0.01
    assert 0.03 < np.mean(np.array(found) < 0.05) < 0.07


def test_williams_has_nothing_to_say_of_equal_answers_or_of_three_rows() -> None:
    assert williams(0.7, 0.7, 1.0, 100) == 1.0
    assert williams(0.7, 0.1, 0.2, 3) == 1.0


def test_holm_by_hand() -> None:
    # Sorted .01 .02 .03 .04: 4 * .01, then 3 * .02, then 2 * .03 and 1 * .04, which may not fall below .06.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


@pytest.mark.parametrize(
    ("found", "merged"),
    [([0.2], 0.2), ([0.2, 0.03], 0.06), ([0.5, 0.04, 0.02], 0.06), ([0.9, 0.8, 0.9], 1.0)],
)
def test_p_of_seeds_are_merged_by_their_middle_one(found: list[float], merged: float) -> None:
    assert merge_p(found) == pytest.approx(merged)


def test_the_interval_of_a_bootstrap_covers_what_is_true_as_often_as_it_says() -> None:
    generator = np.random.default_rng(2)
    rows, true = 150, 0.1
    covered, p_values = 0, []
    for _ in range(300):
        hard = (
            generator.random(rows) < 0.5
        )  # rows that both models find hard, so that they are not independent
        one = generator.random(rows) < np.where(hard, 0.5, 0.9)
        other = generator.random(rows) < np.where(hard, 0.3, 0.9)
        drawn = generator.integers(rows, size=(400, rows))
        found = bootstrap_interval(one[drawn].mean(axis=1) - other[drawn].mean(axis=1))
        covered += found.low <= true <= found.high
        p_values.append(found.p)
    assert 0.91 <= covered / 300 <= 0.98
    assert np.median(p_values) < 0.1


def test_a_bootstrap_of_equal_answers_has_p_one_and_of_none_other_way_never_p_zero() -> None:
    assert bootstrap_interval(np.zeros(999)).p == 1.0
    assert bootstrap_interval(np.full(999, 0.1)).p == pytest.approx(2 / 1000)
