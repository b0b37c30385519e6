"""Gradient surgery: PCGrad (Yu et al. 2020) and Gradient Vaccine (Wang et al. 2021), for all groups at once.

Both go over the tasks i and, for each, over the others j in a random order, adding multiples of the
*original* g_j to g_i. What g_i has become is a row of coefficients of the original gradients, in units of
their norms, and its dot products follow from the Gram; so the gradients themselves are never touched.
"""

from collections.abc import Iterator, Sequence
from typing import final

import numpy as np

from polytask.train.combiners.unit import Floats, norms_and_cosines

LEAST_LENGTH = 1e-6  # of its first length: what corrections left of a gradient below this is rounding
LARGEST_TARGET = 1 - 1e-6  # no sum of a finite multiple of g_j with g_i has a cosine of 1 with it


def others(i: int, num_rows: int, random: np.random.Generator) -> Iterator[int]:
    """Every row but i, in a random order."""
    return (int(j) for j in random.permutation(num_rows) if j != i)


def pcgrad(grams: Floats, random: np.random.Generator) -> Floats:
    """If g_i . g_j < 0 then g_i -= (g_i . g_j / |g_j|^2) g_j; weights [G, K] of the sum of all g_i."""
    norms, cosines = norms_and_cosines(grams)
    num_rows = norms.shape[-1]
    total = np.zeros_like(norms)
    for i in range(num_rows):
        made = np.zeros_like(norms)
        made[:, i] = 1
        for j in others(i, num_rows, random):
            made[:, j] -= np.minimum(_dot(made, cosines[:, j]), 0)
        total += made * norms[:, i, None]
    return _in_gradients(total, norms)


@final
class Vaccine:
    """Raises each pair's cosine phi to at least a target, its moving average phi^, which starts at 0.

    Where phi < phi^,
    g_i += |g_i| (phi^ sqrt(1 - phi^2) - phi sqrt(1 - phi^^2)) / (|g_j| sqrt(1 - phi^^2)) g_j.
    """

    def __init__(self, beta: float, num_groups: int, num_tasks: int) -> None:
        self.beta = beta
        self.targets = np.zeros((num_groups, num_tasks, num_tasks))  # phi^ of each ordered pair of tasks

    def __call__(self, grams: Floats, tasks: Sequence[int], random: np.random.Generator) -> Floats:
        norms, cosines = norms_and_cosines(grams)
        total = np.zeros_like(norms)
        for i, task in enumerate(tasks):
            made = np.zeros_like(norms)
            made[:, i] = 1
            for j in others(i, len(tasks), random):
                self._correct(made, cosines, i, j, self.targets[:, task, tasks[j]])
            total += made * norms[:, i, None]
        return _in_gradients(total, norms)

    def _correct(self, made: Floats, cosines: Floats, i: int, j: int, targets: Floats) -> None:
        """One correction of the row in `made`, in place; the cosine before it feeds the pair's average."""
        length = np.sqrt(np.maximum(np.einsum("gk,gkl,gl->g", made, cosines, made), 0))
        known = (length > LEAST_LENGTH) & (cosines[:, i, i] > 0) & (cosines[:, j, j] > 0)
        dot = _dot(made, cosines[:, j])
        cosine = np.clip(np.divide(dot, length, out=np.zeros_like(dot), where=known), -1, 1)
        target = np.minimum(targets, LARGEST_TARGET)
        sine, target_sine = np.sqrt(1 - cosine**2), np.sqrt(1 - target**2)
        wanted = length * (target * sine - cosine * target_sine) / target_sine
        made[:, j] += np.where(known & (cosine < target), wanted, 0)
        targets[known] = (1 - self.beta) * targets[known] + self.beta * cosine[known]


def _dot(made: Floats, cosines: Floats) -> Floats:
    """The dot product of each group's row with a unit gradient."""
    product: Floats = (made * cosines).sum(axis=-1)
    return product


def _in_gradients(total: Floats, norms: Floats) -> Floats:
    """Coefficients of unit gradients as weights of the gradients themselves; 1 where a gradient is zero."""
    return np.divide(total, norms, out=np.ones_like(total), where=norms > 0)
