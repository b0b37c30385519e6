"""Projections on the dual cone of the gradients: UPGrad and DualProj (Quinton & Rey 2024).

The dual cone holds the directions that conflict with no task. The nearest one to J^T u is J^T v with
v = argmin of v^T G v over v >= u: a non-negative least squares problem in v - u, solved exactly.
"""

import numpy as np

from polytask.train.combiners.nonnegative import nonnegative_least_squares
from polytask.train.combiners.unit import Floats, norms_and_cosines, root_of


def least_weights(root: Floats, wanted: Floats) -> Floats:
    """The v >= `wanted` that makes root @ v shortest."""
    return wanted + nonnegative_least_squares(root, -root @ wanted)


def upgrad(gram: Floats) -> Floats:
    """Each task's gradient projected by itself, then all added up."""
    norms, cosines = norms_and_cosines(gram)
    root = root_of(cosines)
    projected = [
        norm * least_weights(root, unit) for norm, unit in zip(norms, np.eye(len(norms)), strict=True)
    ]
    return np.asarray(sum(projected)) / norms


def dualproj(gram: Floats) -> Floats:
    """The sum of the gradients, projected."""
    norms, cosines = norms_and_cosines(gram)
    return least_weights(root_of(cosines), norms) / norms
