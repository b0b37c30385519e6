"""Metrics on resampled rows, by way of sums over rows: one matrix product draws them all anew."""

from collections.abc import Sequence

import numpy as np

from polytask.evaluate.metrics import Array
from polytask.evaluate.significance import Floats
from polytask.recipe_tasks import Metric

CELLS = 4_000_000  # of the matrix that says how often each row is drawn, at a time


def row_terms(metric: Metric, decided: Array, targets: Array, num_labels: int) -> Floats:
    """[N, F] what each row adds to the sums that the metric is a function of.

    Decided and targets are as in `metrics.score`. Spearman's ranks are those of all rows, in every resample.
    """
    match metric:
        case "accuracy":
            same = decided == targets
            return (same.all(axis=1) if same.ndim == 2 else same).astype(np.float64)[:, None]
        case "mse":
            return ((decided.astype(np.float64) - targets.astype(np.float64)) ** 2)[:, None]
        case "pearson":
            return _moments(decided.astype(np.float64), targets.astype(np.float64))
        case "spearman":
            from scipy.stats import rankdata

            return _moments(rankdata(decided), rankdata(targets))
        case "f1" | "f1_macro" | "matthews":
            flags = [_flags(each, num_labels) for each in (decided, targets)]
            terms = np.concatenate([flags[0] * flags[1], *flags], axis=1)  # right, answered, true
            if metric != "f1":
                return terms
            right, answered, true = np.split(terms, 3, axis=1)
            binary = decided.ndim == 1 and num_labels == 2
            kept = [part[:, 1] if binary else part.sum(axis=1) for part in (right, answered, true)]
            return np.stack(kept, axis=1)


def metric_of_sums(metric: Metric, sums: Floats, num_rows: int) -> Floats:
    """[R] the metric from each line of sums [R, F]; the same as on the rows themselves."""
    match metric:
        case "accuracy" | "mse":
            return sums[:, 0] / num_rows
        case "pearson" | "spearman":
            return _correlation(sums / num_rows)
        case "f1" | "f1_macro":
            right, answered, true = np.split(sums, 3, axis=1)
            shares = 2 * right / np.maximum(answered + true, 1)
            seen = (answered + true > 0).sum(axis=1)
            return np.asarray(shares.sum(axis=1) / np.maximum(seen, 1))
        case "matthews":
            right, answered, true = np.split(sums, 3, axis=1)
            n = float(num_rows)
            spread = (n * n - (answered**2).sum(axis=1)) * (n * n - (true**2).sum(axis=1))
            above = n * right.sum(axis=1) - (answered * true).sum(axis=1)
            return np.where(spread > 0, above / np.sqrt(np.maximum(spread, 1)), 0.0)


def bootstrap(
    metric: Metric, models: Sequence[Sequence[Floats]], resamples: int, generator: np.random.Generator
) -> Floats:
    """[M, R] each model's metric on the same resampled rows; a model has terms [N, F] for each of its seeds.

    The metric is taken of every seed by itself and then averaged.
    """
    num_rows = len(models[0][0])
    found = np.empty((len(models), resamples))
    step = max(1, CELLS // num_rows)
    for start in range(0, resamples, step):
        stop = min(resamples, start + step)
        drawn = _draw(num_rows, stop - start, generator)
        for number, seeds in enumerate(models):
            values = [metric_of_sums(metric, drawn @ terms, num_rows) for terms in seeds]
            found[number, start:stop] = np.mean(values, axis=0)
    return found


def _draw(num_rows: int, resamples: int, generator: np.random.Generator) -> Floats:
    """[R, N] how often each row is drawn, with replacement."""
    rows = generator.integers(num_rows, size=(resamples, num_rows))
    return np.stack([np.bincount(each, minlength=num_rows) for each in rows]).astype(np.float64)


def _moments(values: Floats, targets: Floats) -> Floats:
    """Both and their products, about the mean and at scale one, so that sums of squares lose no digits."""
    x, y = (_scaled(each) for each in (values, targets))
    return np.stack([x, y, x * x, y * y, x * y], axis=1)


def _scaled(values: Floats) -> Floats:
    about = values - values.mean()
    if values.min() == values.max():  # the mean of equal values may differ from them by rounding
        return np.zeros_like(values)
    return about / np.abs(about).max()


def _correlation(means: Floats) -> Floats:
    x, y, xx, yy, xy = means.T
    spread = np.maximum(xx - x * x, 0) * np.maximum(yy - y * y, 0)
    tiny = 1e-24  # a resample of equal values, but for rounding
    value = (xy - x * y) / np.sqrt(np.maximum(spread, tiny))
    return np.where(spread > tiny, np.clip(value, -1.0, 1.0), 0.0)


def _flags(values: Array, num_labels: int) -> Floats:
    """[N, C] zeros and ones."""
    if values.ndim == 2:
        return values.astype(np.float64)
    return np.eye(num_labels)[values.astype(np.int64)]
