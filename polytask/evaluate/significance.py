"""Whether one model's answers are better than another's on the same rows: tests as pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polytask.evaluate.metrics import Array

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """What a bootstrap says of a difference."""

    low: float
    high: float
    p: float  # two-sided


def standard_error(values: Sequence[float]) -> float | None:
    """The standard error of the mean of some runs; None of a single run, which says nothing of its spread."""
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def bootstrap_interval(differences: Floats, confidence: float = 0.95) -> Interval:
    """The percentile interval and two-sided p of differences [R] that were found on resampled rows.

    p counts one resample more on either side than were found, so that it is never 0.
    """
    tail = (1 - confidence) / 2
    low, high = np.quantile(differences, [tail, 1 - tail])
    sides = (int((differences <= 0).sum()), int((differences >= 0).sum()))
    p = min(1.0, 2 * (min(sides) + 1) / (len(differences) + 1))
    return Interval(float(low), float(high), p)


def mcnemar(right: Array, other_right: Array) -> float:
    """The exact two-sided p that two models are right equally often; bool [N] says which rows are right.

    Only rows that one model alone has right count, and each is a fair coin if the models are equally good.
    """
    from scipy.stats import binom

    only, only_other = int((right & ~other_right).sum()), int((other_right & ~right).sum())
    return min(1.0, 2 * float(binom.cdf(min(only, only_other), only + only_other, 0.5)))


def williams(first: float, second: float, between: float, num_rows: int) -> float:
    """The two-sided p that two models' answers correlate equally well with the targets.

    Williams' t (1959) as Steiger (1980) recommends it: `first` and `second` are the models' correlations with
    the targets, `between` the one of their answers with each other.
    """
    from scipy.stats import t

    n = num_rows
    if n <= 3 or first == second:
        return 1.0
    determinant = 1 - first**2 - second**2 - between**2 + 2 * first * second * between
    spread = 2 * (n - 1) / (n - 3) * max(determinant, 0.0)
    spread += (first + second) ** 2 / 4 * (1 - between) ** 3
    if spread <= 0:  # both predict the targets, or each other, without any error
        return 1.0
    value = (first - second) * np.sqrt((n - 1) * (1 + between) / spread)
    return float(2 * t.sf(abs(value), n - 3))


def merge_p(found: Sequence[float]) -> float:
    """One p for several tests of the same claim that are not independent: one a seed on the same rows.

    Of K the k-th smallest, k = half of K rounded up, times K / k: valid however they depend (Rüger, 1978).
    """
    middle = (len(found) + 1) // 2
    return min(1.0, sorted(found)[middle - 1] * len(found) / middle)


def holm(found: Sequence[float]) -> list[float]:
    """Holm's corrected p of each test, in their order: below 0.05 all hold with 95 % at once."""
    corrected = [0.0] * len(found)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(found)), key=found.__getitem__)):
        largest = max(largest, min(1.0, (len(found) - rank) * found[place]))
        corrected[place] = largest
    return corrected
