"""Metrics of resampled rows are the metrics of those rows."""

from typing import Any

import numpy as np
import pytest

from polytask.evaluate.metrics import accuracy as accuracy_of
from polytask.evaluate.metrics import count, f1_binary, f1_macro, f1_micro, matthews, mse, pearson, spearman
from polytask.evaluate.resampling import bootstrap, metric_of_sums, row_terms

ROWS = 60


def answers(kind: str, labels: int, generator: np.random.Generator) -> Any:
    match kind:
        case "classification":
            return tuple(generator.integers(labels, size=ROWS) for _ in range(2))
        case "multilabel":
            return tuple(generator.integers(2, size=(ROWS, labels)) for _ in range(2))
        case _:
            targets = generator.normal(3, 1, size=ROWS)
            return targets + generator.normal(size=ROWS), targets


def direct(metric: str, decided: Any, targets: Any, labels: int) -> float:
    if metric in ("pearson", "spearman", "mse"):
        return {"pearson": pearson, "spearman": spearman, "mse": mse}[metric](decided, targets)
    if metric == "accuracy":
        return accuracy_of(decided, targets)
    counts = count(decided, targets, labels)
    if metric == "f1":
        return f1_binary(counts) if decided.ndim == 1 and labels == 2 else f1_micro(counts)
    return {"f1_macro": f1_macro, "matthews": matthews}[metric](counts)


@pytest.mark.parametrize(
    ("kind", "metric", "labels"),
    [
        ("classification", "accuracy", 4),
        ("classification", "f1", 2),
        ("classification", "f1", 4),
        ("classification", "f1_macro", 12),
        ("classification", "matthews", 2),
        ("classification", "matthews", 5),
        ("multilabel", "accuracy", 2),
        ("multilabel", "f1", 3),
        ("multilabel", "f1_macro", 3),
        ("regression", "pearson", 0),
        ("regression", "mse", 0),
    ],
)
def test_a_metric_of_drawn_sums_is_the_metric_of_the_drawn_rows(kind: str, metric: Any, labels: int) -> None:
    generator = np.random.default_rng(3)
    decided, targets = answers(kind, labels, generator)
    terms = row_terms(metric, decided, targets, labels)
    for rows in (np.arange(ROWS), *generator.integers(ROWS, size=(5, ROWS))):
        found = metric_of_sums(metric, terms[rows].sum(axis=0, keepdims=True), ROWS)
        assert found == pytest.approx([direct(metric, decided[rows], targets[rows], labels)], abs=1e-9)


def test_spearman_keeps_the_ranks_of_all_rows() -> None:
    decided, targets = answers("regression", 0, np.random.default_rng(4))
    terms = row_terms("spearman", decided, targets, 0)
    found = metric_of_sums("spearman", terms.sum(axis=0, keepdims=True), ROWS)
    assert found == pytest.approx([spearman(decided, targets)])


def test_constant_answers_correlate_with_nothing() -> None:
    terms = row_terms("pearson", np.full(ROWS, 0.1), np.arange(ROWS, dtype=float), 0)
    assert metric_of_sums("pearson", terms.sum(axis=0, keepdims=True), ROWS) == [0.0]


def test_models_are_resampled_on_the_same_rows_and_seeds_are_averaged() -> None:
    generator = np.random.default_rng(5)
    one, targets = answers("regression", 0, generator)
    terms = row_terms("pearson", one, targets, 0)
    worse = row_terms("pearson", one + generator.normal(size=ROWS), targets, 0)
    found = bootstrap("pearson", [[terms], [terms, terms], [terms, worse]], 500, np.random.default_rng(6))
    assert found.shape == (3, 500)
    np.testing.assert_allclose(found[0], found[1])
    again = bootstrap("pearson", [[worse]], 500, np.random.default_rng(6))
    np.testing.assert_allclose(found[2], (found[0] + again[0]) / 2)
    assert found[0].std() > 0.01
    assert abs(found[0].mean() - pearson(one, targets)) < 0.02
