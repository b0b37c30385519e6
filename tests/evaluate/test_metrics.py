"""Metrics equal scikit-learn's and SciPy's, and are finite numbers on degenerate sets too."""

import warnings

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from polytask.evaluate.metrics import count, decide, f1_macro, matthews, pearson, score, spearman
from polytask.recipe_tasks import METRICS_OF_KIND, Kind, Metric
from polytask.tasks import Task


def make_task(kind: Kind = "classification", labels: int = 3, metric: Metric = "accuracy") -> Task:
    names = tuple(f"label{number}" for number in range(labels))
    return Task(name="t", kind=kind, texts=1, labels=names, range=None, metric=metric)


REGRESSION = make_task("regression", 0, "pearson")


@st.composite
def class_sets(draw: st.DrawFn) -> tuple[Task, np.ndarray, np.ndarray]:
    labels, rows = draw(st.integers(2, 6)), draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return make_task(labels=labels), rng.dirichlet([1] * labels, rows), rng.integers(0, labels, rows)


@st.composite
def label_sets(draw: st.DrawFn) -> tuple[Task, np.ndarray, np.ndarray]:
    labels, rows = draw(st.integers(1, 5)), draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    task = make_task("multilabel", labels, "f1_macro")
    return task, rng.random((rows, labels)), rng.integers(0, 2, (rows, labels)).astype(np.uint8)


@given(class_sets())
def test_classification_metrics_equal_scikit_learn(case: tuple[Task, np.ndarray, np.ndarray]) -> None:
    task, answers, targets = case
    found, decided = score(task, answers, targets), answers.argmax(axis=1)
    binary = len(task.labels) == 2
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(targets, decided))
    f1 = sk.f1_score(targets, decided, average="binary" if binary else "micro", zero_division=0)
    assert found["f1"] == pytest.approx(f1)
    assert found["f1_macro"] == pytest.approx(sk.f1_score(targets, decided, average="macro", zero_division=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns where there is one class only
        assert found["matthews"] == pytest.approx(sk.matthews_corrcoef(targets, decided), abs=1e-12)


@given(label_sets())
def test_multilabel_metrics_equal_scikit_learn(case: tuple[Task, np.ndarray, np.ndarray]) -> None:
    task, answers, targets = case
    found, decided = score(task, answers, targets), (answers >= 0.5).astype(int)
    assert found["accuracy"] == pytest.approx((decided == targets).all(axis=1).mean())
    right, wrong = (decided & targets).sum(), (decided != targets).sum()
    assert found["f1"] == pytest.approx(2 * right / max(2 * right + wrong, 1))
    seen = [c for c in range(targets.shape[1]) if decided[:, c].any() or targets[:, c].any()]
    each = [sk.f1_score(targets[:, c], decided[:, c], zero_division=0) for c in seen]
    assert found["f1_macro"] == pytest.approx(np.mean(each) if each else 0.0)


values = st.integers(2, 50).flatmap(
    lambda rows: st.tuples(*[arrays(np.float32, rows, elements=st.floats(-5, 5, width=32))] * 2)
)


@given(values)
def test_regression_metrics_equal_scipy(case: tuple[np.ndarray, np.ndarray]) -> None:
    answers, targets = case
    found = score(REGRESSION, answers[:, None], targets)
    assert found["mse"] == pytest.approx(sk.mean_squared_error(targets.astype(float), answers.astype(float)))
    if np.ptp(answers) > 1e-3 and np.ptp(targets) > 1e-3:
        expected = stats.pearsonr(answers.astype(float), targets.astype(float)).statistic
        assert found["pearson"] == pytest.approx(expected, abs=1e-9)
        assert found["spearman"] == pytest.approx(stats.spearmanr(answers, targets).statistic, abs=1e-9)


@given(
    st.integers(1, 30).flatmap(
        lambda rows: st.tuples(
            *[arrays(np.float32, rows, elements=st.floats(width=32, allow_nan=False, allow_infinity=False))]
            * 2
        )
    )
)
def test_regression_metrics_are_finite_for_any_finite_values(case: tuple[np.ndarray, np.ndarray]) -> None:
    found = score(REGRESSION, *case)
    assert all(np.isfinite(value) for value in found.values())
    assert -1 <= found["pearson"] <= 1
    assert -1 <= found["spearman"] <= 1


@given(st.floats(1e-20, 1e20), st.floats(-3, 3))
def test_correlations_do_not_change_with_scale(scale: float, sign_and_shift: float) -> None:
    x, y = np.arange(9.0) ** 2, np.arange(9.0)
    assert pearson(x * scale, y) == pytest.approx(pearson(x, y), rel=1e-6)
    assert pearson(x + sign_and_shift, y) == pytest.approx(pearson(x, y), rel=1e-9)
    assert spearman(-x * scale, y) == pytest.approx(-1.0)


@pytest.mark.parametrize("kind", list(METRICS_OF_KIND))
def test_score_returns_every_metric_of_the_kind(kind: Kind) -> None:
    task = make_task(kind, 0 if kind == "regression" else 2, METRICS_OF_KIND[kind][0])
    targets = {
        "classification": np.array([0, 1]),
        "regression": np.array([0.5, 1.5], dtype=np.float32),
        "multilabel": np.array([[0, 1], [1, 1]], dtype=np.uint8),
    }[kind]
    found = score(task, np.full((2, task.num_outputs), 0.5), targets)
    assert tuple(found) == METRICS_OF_KIND[kind]
    assert task.metric in found


@pytest.mark.parametrize("constant", [0.1, 0.0, -7.3, 1e-30])
def test_a_constant_answer_correlates_with_nothing(constant: float) -> None:
    found = score(REGRESSION, np.full(7, constant), np.arange(7, dtype=np.float32))
    assert found["pearson"] == found["spearman"] == 0.0
    assert score(REGRESSION, np.arange(7.0), np.full(7, constant))["pearson"] == 0.0


def test_always_answering_one_class_has_matthews_zero() -> None:
    found = score(make_task(), np.eye(3)[[1] * 6], np.array([0, 1, 2, 0, 1, 2]))
    assert found["matthews"] == 0.0
    assert found["accuracy"] == pytest.approx(1 / 3)


def test_the_second_label_is_the_positive_one_of_two() -> None:
    answers = np.eye(2)[[0, 0, 0, 1]]
    assert score(make_task(labels=2), answers, np.array([0, 0, 1, 1]))["f1"] == pytest.approx(2 / 3)


def test_f1_is_zero_when_nothing_is_positive() -> None:
    assert score(make_task(labels=2), np.eye(2)[[0, 0]], np.array([0, 0]))["f1"] == 0.0
    empty = score(make_task("multilabel", 2, "f1"), np.zeros((3, 2)), np.zeros((3, 2), dtype=np.uint8))
    assert empty == {"f1_macro": 0.0, "f1": 0.0, "accuracy": 1.0}


def test_a_label_that_never_occurs_does_not_pull_f1_macro_down() -> None:
    decided = np.array([0, 1, 0, 1])
    assert f1_macro(count(decided, decided, 5)) == 1.0


def test_matthews_of_perfect_and_reversed_answers() -> None:
    targets = np.array([0, 1, 0, 1])
    assert matthews(count(targets, targets, 2)) == 1.0
    assert matthews(count(1 - targets, targets, 2)) == -1.0


def test_a_probability_at_the_threshold_gives_the_label() -> None:
    task = make_task("multilabel", 2, "f1")
    assert decide(task, np.array([[0.5, 0.49]])).tolist() == [[1, 0]]


def test_one_row_has_a_score() -> None:
    assert score(REGRESSION, np.array([2.0]), np.array([3.0])) == {"pearson": 0, "spearman": 0, "mse": 1}


@pytest.mark.parametrize("task", [make_task(), REGRESSION, make_task("multilabel", 3, "f1")])
def test_an_empty_set_has_no_score(task: Task) -> None:
    with pytest.raises(ValueError, match="at least one row"):
        score(task, np.zeros((0, task.num_outputs)), np.zeros(0))


@pytest.mark.parametrize(
    ("answers", "targets", "message"),
    [
        (np.zeros((2, 4)), np.array([0, 1]), "answers should have shape"),
        (np.zeros((2, 3)), np.array([0, 1, 2]), "targets should have shape"),
        (np.zeros((2, 3)), np.array([0, 3]), "from 0 to 2"),
        (np.zeros((2, 3)), np.array([-1, 0]), "from 0 to 2"),
        (np.zeros((2, 3)), np.array([0.0, 1.0]), "whole numbers"),
        (np.full((2, 3), np.nan), np.array([0, 1]), "finite"),
    ],
)
def test_sets_that_cannot_be_scored_are_refused(
    answers: np.ndarray, targets: np.ndarray, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        score(make_task(), answers, targets)


def test_a_target_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        score(REGRESSION, np.zeros(2), np.array([0.0, np.nan]))
