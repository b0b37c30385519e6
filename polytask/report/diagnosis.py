"""What a task's answers show: which labels are confused, how sure it is rightly, and its worst errors."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from polytask.evaluate.metrics import Array, count
from polytask.report.answers import Answered

NUM_BINS = 10
TINY = 1e-7  # predictions keep six digits
PER_PAIR = 2  # errors of each confused pair of labels that come before those that are worse still


@dataclass(frozen=True)
class Bin:
    """Answers of about the same confidence."""

    rows: int
    confidence: float  # their mean
    right: float  # the share of them that is right


@dataclass(frozen=True)
class LabelScore:
    """How a label did: of the answers that gave it and of the rows that have it, the share that is right."""

    label: str
    precision: float | None
    recall: float | None
    f1: float
    true: int
    answered: int


@dataclass(frozen=True)
class Mistake:
    """A row that was answered wrong: its place among the answers, and how wrong, from 0."""

    row: int
    badness: float


def confusion(found: Answered) -> Array:
    """int [C, C]: how often a label (row) was answered as another (column)."""
    num = len(found.labels)
    return np.bincount(found.targets * num + found.answers, minlength=num * num).reshape(num, num)


def label_scores(found: Answered) -> list[LabelScore]:
    """Precision, recall and F1 of every label."""
    targets, answers = (values.astype(np.int64) for values in (found.targets, found.answers))
    counts = count(answers, targets, len(found.labels))
    scores = []
    for label, right, answered, true in zip(
        found.labels, counts.right.tolist(), counts.answered.tolist(), counts.true.tolist(), strict=True
    ):
        precision, recall = (right / of if of else None for of in (answered, true))
        f1 = 2 * right / (answered + true) if answered + true else 0.0
        scores.append(LabelScore(label, precision, recall, f1, true, answered))
    return scores


def reliability(found: Answered, temperature: float = 1.0) -> list[Bin]:
    """Answers by confidence, with the temperature that the model divides by taken out again.

    As in calibration, a multilabel row has one event a label.
    """
    if found.kind == "multilabel":
        logits = _log(found.probabilities) - _log(1 - found.probabilities)
        confidence = (1 / (1 + np.exp(-logits * temperature))).ravel()
        right = found.targets.ravel()
    else:
        shares = np.exp(_log(found.probabilities) * temperature)
        confidence = (shares / shares.sum(axis=1, keepdims=True)).max(axis=1)
        right = found.answers == found.targets
    places = np.minimum((confidence * NUM_BINS).astype(int), NUM_BINS - 1)
    rows, sure, hits = (
        np.bincount(places, weights=weights, minlength=NUM_BINS)
        for weights in (None, confidence, right.astype(np.float64))
    )
    return [
        Bin(int(num), float(total / num), float(hit / num))
        for num, total, hit in zip(rows, sure, hits, strict=True)
        if num
    ]


def _log(probabilities: Array) -> Array:
    return np.log(np.clip(probabilities.astype(np.float64), TINY, 1))


def worst(found: Answered, most: int) -> list[Mistake]:
    """At most `most` rows, the worst first; each pair of labels that is confused is shown if there is room.

    Of a class: how much surer the model was of its answer than of the truth. Of several labels: the mean of
    how far each probability is off. Of a value: how far it is off.
    """
    wrong = np.flatnonzero(found.wrong)
    badness = _badness(found)[wrong]
    order = np.argsort(-badness, kind="stable")
    ranked = [Mistake(int(wrong[place]), float(badness[place])) for place in order]
    if found.kind != "classification":
        return ranked[:most]
    seen: Counter[tuple[int, int]] = Counter()
    first: list[Mistake] = []
    later: list[Mistake] = []
    for mistake in ranked:
        pair = int(found.targets[mistake.row]), int(found.answers[mistake.row])
        seen[pair] += 1
        (first if seen[pair] <= PER_PAIR else later).append(mistake)
    chosen = [*first, *later][:most]
    return sorted(chosen, key=lambda mistake: -mistake.badness)


def _badness(found: Answered) -> Array:
    rows = np.arange(len(found.ids))
    match found.kind:
        case "classification":
            return found.probabilities[rows, found.answers] - found.probabilities[rows, found.targets]
        case "multilabel":
            return np.abs(found.probabilities - found.targets).mean(axis=1)
        case "regression":
            return np.abs(found.answers - found.targets)
