"""Non-negative least squares that stay exact where gradients depend on each other."""

import numpy as np

from polytask.train.combiners.unit import Floats

RIDGE = 1e-12  # times |x|^2: without it the solver can stop early among dependent columns, far from the end


def nonnegative_least_squares(columns: Floats, target: Floats) -> Floats:
    """The x >= 0 that makes |columns @ x - target| least, for columns of about length 1."""
    from scipy.optimize import nnls  # slow to import, and few phases need it

    num = columns.shape[1]
    rows = np.vstack([columns, RIDGE**0.5 * np.eye(num)])
    found, _ = nnls(rows, np.concatenate([target, np.zeros(num)]), maxiter=100 * num)
    return np.asarray(found)
