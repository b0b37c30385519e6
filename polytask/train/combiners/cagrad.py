"""CAGrad (Liu et al. 2021): the mean gradient, moved towards the task that would gain least."""

import numpy as np

from polytask.train.combiners.min_norm import shortest
from polytask.train.combiners.unit import Floats, root_of

LEAST_LENGTH = 1e-9  # of |g_w|, in units of the longest gradient


def cagrad(gram: Floats, c: float) -> Floats:
    """K / (1 + c) times g0 + c |g0| g_w / |g_w|: as long as the sum where the tasks agree.

    g_w is the convex combination that makes g_w . g0 + c |g0| |g_w| least. For a given length t in place of
    |g_w|, it is the shortest one of the g_i moved by a multiple of g0; at the right t its length is t.
    """
    from scipy.optimize import brentq  # slow to import, and few phases need it

    num_tasks = len(gram)
    vectors = root_of(gram)
    mean = vectors.mean(axis=1)
    reach = c * np.linalg.norm(mean)

    def combination(length: float) -> Floats:
        return shortest(vectors + (length / reach * mean)[:, None])

    def excess(length: float) -> float:
        return float(np.linalg.norm(vectors @ combination(length))) - length

    weights = np.full(num_tasks, 1 / num_tasks)
    longest = float(np.sqrt(np.diagonal(gram).max()))
    least = LEAST_LENGTH * longest
    # Where g_w vanishes no direction gains for every task, and the mean stands alone, as published.
    if reach > least and excess(least) > 0:
        length = brentq(excess, least, (1 + 1e-9) * longest, xtol=1e-12 * longest, rtol=1e-12)
        weights += reach / length * combination(length)
    return num_tasks / (1 + c) * weights
