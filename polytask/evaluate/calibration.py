"""Calibration: one temperature a task, so that among answers given with 80 % about 80 % are right."""

from dataclasses import dataclass, replace

import numpy as np

from polytask.evaluate.metrics import Array
from polytask.tasks import Floats, Task, answers

MIN_ROWS = 30  # fewer say more about chance than about the model
LOWEST, HIGHEST = 0.2, 10.0
NUM_BINS = 15
TINY = 1e-12  # a probability of 0 that came true costs no more than this one


@dataclass(frozen=True)
class Calibration:
    """A task's temperature, and the calibration error without and with one."""

    temperature: float
    error_before: float
    error_after: float  # of each half of the rows under the temperature that was fitted on the other

    def to_dict(self) -> dict[str, float]:
        return {name: round(value, 6) for name, value in vars(self).items()}


def calibrate(task: Task, outputs: Floats, targets: Array) -> Calibration | None:
    """The temperature under which a head's outputs [N, num_outputs] fit labelled rows best.

    None where nothing can be fitted: a regression has no probabilities, a cosine head's outputs are no
    logits, and a few rows say little. The labels that are answered stay the same under any temperature.
    """
    if task.kind == "regression" or task.head.kind == "cosine" or len(targets) < MIN_ROWS:
        return None
    plain = replace(task, temperature=1.0)
    halves = [slice(0, None, 2), slice(1, None, 2)]
    crossed = np.empty_like(outputs)
    for fitted, measured in (halves, halves[::-1]):
        temperature = fit_temperature(task, outputs[fitted], targets[fitted])
        crossed[measured] = answers(replace(task, temperature=temperature), outputs[measured])
    return Calibration(
        fit_temperature(task, outputs, targets),
        calibration_error(task, answers(plain, outputs), targets),
        calibration_error(task, crossed, targets),
    )


def fit_temperature(task: Task, outputs: Floats, targets: Array) -> float:
    """The temperature with the least negative log likelihood (Guo et al. 2017)."""
    from scipy.optimize import minimize_scalar

    def cost(log_temperature: float) -> float:
        given = answers(replace(task, temperature=float(np.exp(log_temperature))), outputs)
        return -float(np.log(np.maximum(_of_truth(task, given, targets), TINY)).mean())

    bounds = (float(np.log(LOWEST)), float(np.log(HIGHEST)))
    return float(np.exp(minimize_scalar(cost, bounds=bounds, method="bounded").x))


def calibration_error(task: Task, probabilities: Floats, targets: Array) -> float:
    """How far confidence is from the share of right answers, averaged over bins of confidence by rows.

    The confidence of a classification is its label's probability; a multilabel task has one event a label.
    """
    if task.kind == "multilabel":
        confidence, right = probabilities.ravel(), targets.ravel().astype(bool)
    else:
        confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == targets
    bins = np.minimum((confidence * NUM_BINS).astype(int), NUM_BINS - 1)
    sums = np.bincount(bins, weights=confidence.astype(np.float64) - right, minlength=NUM_BINS)
    return float(np.abs(sums).sum() / len(confidence))


def _of_truth(task: Task, probabilities: Floats, targets: Array) -> Floats:
    """The probability that was given to what is true."""
    if task.kind == "multilabel":
        return np.where(targets.astype(bool), probabilities, 1 - probabilities)
    found: Floats = probabilities[np.arange(len(targets)), targets]
    return found
