"""What a score is: metrics over whole sets, never averaged over batches.

Every metric is a finite number on every set that is not empty. Where the usual formula divides by zero:
- pearson and spearman are 0.0 when the answers or the targets are constant: there is nothing to follow;
- matthews is 0.0 when the answers or the targets are all one class: no better than chance;
- f1 is 0.0 when no row is, or is answered, positive;
- f1_macro leaves out a label that occurs neither in answers nor in targets, and is 0.0 when all are left out.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polytask.recipe_tasks import METRICS_OF_KIND
from polytask.tasks import Task

LESS_IS_BETTER = ("mse",)
THRESHOLD = 0.5  # of a multilabel probability; at the threshold the label is given

Array = NDArray[Any]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def score(task: Task, answers: Array, targets: Array) -> dict[str, float]:
    """Every metric of the task's kind from probabilities [N, C], or a regression's values [N] or [N, 1].

    Targets are class numbers [N], values [N], or zeros and ones [N, C] for multilabel.
    """
    decided = decide(task, answers)
    if len(targets) == 0:
        raise ValueError(f"{task.name}: a score needs at least one row. Found none.")
    if targets.shape != decided.shape:
        raise ValueError(f"{task.name}: targets should have shape {decided.shape}. Found {targets.shape}.")
    if not np.isfinite(targets.astype(np.float64)).all():
        raise ValueError(f"{task.name}: targets should be finite numbers. Found NaN or infinity.")
    if task.kind == "regression":
        values = {
            "pearson": pearson(decided, targets),
            "spearman": spearman(decided, targets),
            "mse": mse(decided, targets),
        }
    else:
        counts = count(decided, targets, len(task.labels))
        binary = task.kind == "classification" and len(task.labels) == 2
        values = {
            "accuracy": accuracy(decided, targets),
            "f1": f1_binary(counts) if binary else f1_micro(counts),
            "f1_macro": f1_macro(counts),
            "matthews": matthews(counts),
        }
    return {name: values[name] for name in METRICS_OF_KIND[task.kind]}


def decide(task: Task, answers: Array) -> Array:
    """Class numbers [N], given labels [N, C] as zeros and ones, or values [N]; of equal classes the first."""
    shapes = [(len(answers), task.num_outputs)] + [(len(answers),)] * (task.kind == "regression")
    if answers.shape not in shapes:
        raise ValueError(f"{task.name}: answers should have shape {shapes[0]}. Found {answers.shape}.")
    if not np.isfinite(answers.astype(np.float64)).all():
        raise ValueError(f"{task.name}: answers should be finite numbers. Found NaN or infinity.")
    match task.kind:
        case "classification":
            classes: Integers = answers.argmax(axis=1)
            return classes
        case "multilabel":
            return (answers.astype(np.float64) >= THRESHOLD).astype(np.uint8)
        case "regression":
            return answers.reshape(len(answers))


@dataclass(frozen=True)
class Counts:
    """How often each label was answered, was true, and was both; [C] each."""

    right: Integers
    answered: Integers
    true: Integers
    rows: int


def count(decided: Array, targets: Array, num_labels: int) -> Counts:
    """The counts behind f1 and matthews, from class numbers [N] or zeros and ones [N, C]."""
    highest = num_labels - 1 if targets.ndim == 1 else 1
    if targets.dtype.kind not in "iub" or targets.min() < 0 or targets.max() > highest:
        raise ValueError(f"targets should be whole numbers from 0 to {highest}.")
    if targets.ndim == 2:
        both = decided.astype(np.int64) * targets.astype(np.int64)
        right, answered, true = (table.sum(axis=0, dtype=np.int64) for table in (both, decided, targets))
    else:
        same = targets[decided == targets]
        right, answered, true = (np.bincount(each, minlength=num_labels) for each in (same, decided, targets))
    return Counts(right, answered, true, rows=len(targets))


def accuracy(decided: Array, targets: Array) -> float:
    """The share of rows that are right; of a multilabel row every label has to be."""
    same = decided == targets
    return float(same.all(axis=1).mean() if same.ndim == 2 else same.mean())


def f1_binary(counts: Counts) -> float:
    """F1 of the second label."""
    return float(_f1(counts.right[1:2], counts.answered[1:2], counts.true[1:2])[0])


def f1_micro(counts: Counts) -> float:
    """F1 of the counts summed over all labels; with one class a row this is the accuracy."""
    return float(_f1(*(each.sum(keepdims=True) for each in (counts.right, counts.answered, counts.true)))[0])


def f1_macro(counts: Counts) -> float:
    """The plain mean of each label's F1."""
    seen = (counts.answered + counts.true) > 0
    return float(_f1(counts.right, counts.answered, counts.true)[seen].mean()) if seen.any() else 0.0


def _f1(right: Integers, answered: Integers, true: Integers) -> Floats:
    shares: Floats = 2 * right / np.maximum(answered + true, 1)
    return shares


def matthews(counts: Counts) -> float:
    """Matthews correlation for any number of classes (Gorodkin's R_K)."""
    n, p, t = float(counts.rows), counts.answered.astype(np.float64), counts.true.astype(np.float64)
    spread = (n * n - p @ p) * (n * n - t @ t)
    return float((n * counts.right.sum() - p @ t) / np.sqrt(spread)) if spread > 0 else 0.0


def pearson(values: Array, targets: Array) -> float:
    """Linear correlation."""
    x, y = _direction(values), _direction(targets)
    return float(np.clip(x @ y, -1.0, 1.0))


def spearman(values: Array, targets: Array) -> float:
    """Linear correlation of the ranks, equal values sharing their average rank."""
    from scipy.stats import rankdata

    return pearson(rankdata(values), rankdata(targets))


def mse(values: Array, targets: Array) -> float:
    """Mean squared error, in the square of the targets' unit; the one metric of which less is better."""
    return float(np.mean((values.astype(np.float64) - targets.astype(np.float64)) ** 2))


def _direction(values: Array) -> Floats:
    """Values about their mean, scaled to length one; zeros when they are constant."""
    x = values.astype(np.float64)
    if x.min() == x.max():  # asked first: the mean of equal values may differ from them by rounding
        return np.zeros_like(x)
    x = x / np.abs(x).max()  # squares of very small or very large values stay in range
    x = x - x.mean()
    length = np.linalg.norm(x)
    return x / length if length > 0 else np.zeros_like(x)
