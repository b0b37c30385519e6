"""Baselines learn what a linear model can, answer what train says, and are the same every time."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from polytask.evaluate import baselines
from polytask.evaluate.baselines import majority, tfidf
from polytask.recipe_tasks import METRICS_OF_KIND, Kind
from polytask.tasks import Task

DATA = Path(__file__).parents[3] / "shared" / "data"


def make_task(kind: Kind = "classification", labels: int = 2, texts: int = 1) -> Task:
    names = tuple(f"label{number}" for number in range(labels))
    return Task("t", kind, texts, names, None, METRICS_OF_KIND[kind][0])


def sentences(seed: int, rows: int = 200) -> tuple[list[tuple[str, ...]], np.ndarray]:
    """Sentences whose class is told by one word among noise."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, 2, rows)
    noise = rng.integers(0, 40, (rows, 5))
    texts: list[tuple[str, ...]] = [
        (" ".join([f"w{n}" for n in words] + [["bad", "good"][target]]),)
        for words, target in zip(noise, targets, strict=True)
    ]
    return texts, targets


def pairs(seed: int, rows: int = 400) -> tuple[list[tuple[str, ...]], np.ndarray]:
    """Pairs of six words with 0 to 6 in common, and how many: no word alone tells anything."""
    rng = np.random.default_rng(seed)
    texts: list[tuple[str, ...]] = []
    common = rng.integers(0, 7, rows)
    for shared in common:
        words = [f"w{n}" for n in rng.choice(200, 12 - shared, replace=False)]
        texts.append((" ".join(words[:6]), " ".join(words[6 - shared :])))
    return texts, common


def test_majority_answers_the_most_frequent_class_of_train() -> None:
    found = majority(make_task(labels=3), np.array([2, 2, 0]), np.array([0, 0, 0, 2]))
    assert found["accuracy"] == 0.25
    assert found["matthews"] == 0.0


def test_majority_answers_the_mean_of_a_regression() -> None:
    train, dev = np.array([1, 3], dtype=np.float32), np.array([2, 4], dtype=np.float32)
    assert majority(make_task("regression", 0), train, dev) == {"pearson": 0.0, "spearman": 0.0, "mse": 2.0}


def test_majority_takes_each_label_by_itself() -> None:
    train = np.array([[1, 0, 1], [1, 0, 0], [0, 1, 1]], dtype=np.uint8)
    found = majority(make_task("multilabel", 3), train, np.array([[1, 0, 1], [1, 1, 1]], dtype=np.uint8))
    assert found["accuracy"] == 0.5


def test_tfidf_finds_the_word_that_tells_the_class() -> None:
    (texts, targets), (dev_texts, dev_targets) = sentences(1), sentences(2)
    assert tfidf(make_task(), texts, targets, dev_texts, dev_targets, seed=1)["accuracy"] > 0.95


def test_tfidf_tells_how_similar_a_pair_is() -> None:
    (texts, common), (dev_texts, dev_common) = pairs(1), pairs(2)
    found = tfidf(
        make_task("regression", 0, texts=2), texts, common / 1.0, dev_texts, dev_common / 1.0, seed=1
    )
    assert found["pearson"] > 0.9


def test_tfidf_tells_whether_a_pair_is_alike() -> None:
    (texts, common), (dev_texts, dev_common) = pairs(1), pairs(2)
    task = make_task(texts=2)
    found = tfidf(task, texts, (common > 3).astype(int), dev_texts, (dev_common > 3).astype(int), seed=1)
    assert found["accuracy"] > 0.85


def test_the_order_of_a_pair_does_not_matter() -> None:
    (texts, common), (dev_texts, dev_common) = pairs(1, 100), pairs(2, 100)
    task, swapped = make_task("regression", 0, texts=2), [(b, a) for a, b in dev_texts]
    one = tfidf(task, texts, common / 1.0, dev_texts, dev_common / 1.0, seed=1)
    assert one == pytest.approx(tfidf(task, texts, common / 1.0, swapped, dev_common / 1.0, seed=1))


def test_tfidf_learns_each_label_and_keeps_a_constant_one() -> None:
    (texts, targets), (dev_texts, dev_targets) = sentences(1), sentences(2)
    labels, dev_labels = (
        np.stack([t, 1 - t, np.ones_like(t), np.zeros_like(t)], axis=1).astype(np.uint8)
        for t in (targets, dev_targets)
    )
    found = tfidf(make_task("multilabel", 4), texts, labels, dev_texts, dev_labels, seed=1)
    assert found["accuracy"] > 0.95


def test_a_class_that_train_lacks_is_never_answered() -> None:
    texts, targets = sentences(1)
    found = tfidf(make_task(labels=3), texts, targets * 2, texts[:4], np.array([1, 1, 1, 1]), seed=1)
    assert found["accuracy"] == 0.0


def test_with_one_class_in_train_tfidf_equals_majority() -> None:
    texts, targets = sentences(1)
    ones, task = np.ones_like(targets), make_task()
    assert tfidf(task, texts, ones, texts, targets, seed=1) == majority(task, ones, targets)


def test_with_no_word_in_train_tfidf_equals_majority() -> None:
    targets, task = np.array([0, 1, 1]), make_task()
    blank: list[tuple[str, ...]] = [("",), ("...",), ("  ",)]
    assert tfidf(task, blank, targets, blank, targets, seed=1) == majority(task, targets, targets)


def test_values_stay_in_the_range_of_the_task() -> None:
    task = Task("t", "regression", 1, (), (0.4, 0.6), "pearson")
    texts, targets = sentences(1)
    found = tfidf(task, texts, targets.astype(np.float32), texts, np.full(len(texts), 0.5), seed=1)
    assert found["mse"] <= 0.0101


def test_more_rows_than_the_cap_are_sampled_by_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MAX_TRAIN_ROWS", 12)
    (texts, targets), (dev_texts, dev_targets) = sentences(1), sentences(2)
    found = [
        tfidf(make_task(), texts, targets, dev_texts, dev_targets, seed)["accuracy"] for seed in (1, 1, 2, 3)
    ]
    assert found[0] == found[1]
    assert len(set(found)) > 1
    assert max(found) < 0.95


def test_many_classes_keep_only_the_frequent_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MAX_COEFFICIENTS", 8)
    (texts, targets), (dev_texts, dev_targets) = sentences(1), sentences(2)
    assert tfidf(make_task(), texts, targets, dev_texts, dev_targets, seed=1)["accuracy"] > 0.95


@pytest.mark.parametrize("kind", list(METRICS_OF_KIND))
def test_an_empty_train_set_is_refused(kind: Kind) -> None:
    task, nothing = make_task(kind, 0 if kind == "regression" else 2), np.zeros(0)
    with pytest.raises(ValueError, match="at least one training row"):
        majority(task, nothing, np.zeros(1))
    with pytest.raises(ValueError, match="at least one training row"):
        tfidf(task, [], nothing, [("a",)], np.zeros(1), seed=1)


@pytest.mark.skipif(not (DATA / "sts-dev.csv").exists(), reason=f"{os.fspath(DATA)} is not there")
def test_tfidf_on_real_similarity_is_far_above_the_mean() -> None:
    def load(name: str) -> tuple[list[tuple[str, ...]], np.ndarray]:
        with (DATA / name).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        values = np.array([float(row["similarity"]) for row in rows], dtype=np.float32)
        return [(row["sentence1"], row["sentence2"]) for row in rows], values

    task = Task("sts", "regression", 2, (), (0.0, 5.0), "pearson")
    assert tfidf(task, *load("sts-train.csv"), *load("sts-dev.csv"), seed=1)["pearson"] > 0.65
