"""What is said of answers follows from them: counted here once more, by hand."""

import numpy as np
import pytest

from polytask.evaluate.calibration import NUM_BINS, calibration_error
from polytask.report import diagnosis
from polytask.report.answers import Answered
from polytask.report.confusion import most_confused
from polytask.report.diagnosis import confusion, label_scores, reliability, worst
from polytask.tasks import Task

LABELS = ("a", "b", "c")


def classified(rows: int = 200, seed: int = 1) -> Answered:
    source = np.random.default_rng(seed)
    shares = source.dirichlet([0.7] * 3, rows).astype(np.float32)
    targets = source.integers(0, 3, rows)
    ids = [str(row) for row in range(rows)]
    return Answered("classification", LABELS, ids, targets, shares.argmax(axis=1), shares)


def test_the_matrix_counts_every_pair() -> None:
    found = classified()
    counts = confusion(found)
    for true in range(3):
        for given in range(3):
            same = sum((t, g) == (true, given) for t, g in zip(found.targets, found.answers, strict=True))
            assert counts[true, given] == same
    most = most_confused(found)
    assert most
    np.fill_diagonal(counts, 0)
    assert most[2] == counts.max()


def test_nothing_confused_is_nothing_to_name() -> None:
    found = classified()
    right = Answered("classification", LABELS, found.ids, found.answers, found.answers, found.probabilities)
    assert most_confused(right) is None
    assert worst(right, 5) == []


def test_label_scores_are_precision_and_recall() -> None:
    found = classified()
    for place, score in enumerate(label_scores(found)):
        true, given = found.targets == place, found.answers == place
        assert score.precision == pytest.approx((true & given).sum() / given.sum())
        assert score.recall == pytest.approx((true & given).sum() / true.sum())
        assert score.f1 == pytest.approx(2 * (true & given).sum() / (true.sum() + given.sum()))


def test_the_bins_give_the_calibration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    found = classified()
    monkeypatch.setattr(diagnosis, "NUM_BINS", NUM_BINS)
    bins = reliability(found)
    error = sum(each.rows * abs(each.confidence - each.right) for each in bins) / 200
    task = Task("t", "classification", 1, LABELS, None, "accuracy")
    assert error == pytest.approx(calibration_error(task, found.probabilities, found.targets), abs=1e-5)
    assert sum(each.rows for each in bins) == 200


def test_the_temperature_is_taken_out_again() -> None:
    found, temperature = classified(), 2.5
    shares = found.probabilities.astype(np.float64) ** (1 / temperature)
    cooled = (shares / shares.sum(axis=1, keepdims=True)).round(6)
    given = Answered("classification", LABELS, found.ids, found.targets, found.answers, cooled)
    for again, plain in zip(reliability(given, temperature), reliability(found), strict=True):
        assert again.confidence == pytest.approx(plain.confidence, abs=0.01)


def test_several_labels_have_an_event_each() -> None:
    shares = np.array([[0.95, 0.05], [0.95, 0.55]], dtype=np.float32)
    targets = np.array([[True, False], [False, True]])
    found = Answered("multilabel", ("a", "b"), ["0", "1"], targets, shares >= 0.5, shares)
    bins = reliability(found)
    assert [(each.rows, each.right) for each in bins] == [(1, 0.0), (1, 1.0), (2, 0.5)]
    assert reliability(found, 2.0)[-1].confidence > 0.99  # a model divided by 2 was surer before
    assert [mistake.row for mistake in worst(found, 5)] == [1]


def test_the_worst_come_first_and_each_confusion_is_among_them() -> None:
    found = classified()
    mistakes = worst(found, 12)
    assert len(mistakes) == 12
    badness = [mistake.badness for mistake in mistakes]
    assert badness == sorted(badness, reverse=True)
    assert all(found.targets[each.row] != found.answers[each.row] for each in mistakes)
    assert badness[0] == max(each.badness for each in worst(found, 10_000))
    pairs = {(int(found.targets[each.row]), int(found.answers[each.row])) for each in mistakes}
    assert len(pairs) == 6


def test_values_are_ranked_by_how_far_they_are_off() -> None:
    targets, answers = np.array([1.0, 2.0, 3.0]), np.array([1.5, 2.0, 0.0])
    found = Answered("regression", (), ["0", "1", "2"], targets, answers, np.empty((3, 0)))
    assert [(each.row, each.badness) for each in worst(found, 5)] == [(2, 3.0), (0, 0.5)]
