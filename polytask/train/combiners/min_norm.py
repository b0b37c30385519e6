"""MGDA (Desideri 2012, Sener & Koltun 2018): the shortest convex combination of the gradients."""

import numpy as np

from polytask.train.combiners.nonnegative import nonnegative_least_squares
from polytask.train.combiners.unit import Floats, root_of


def shortest(vectors: Floats) -> Floats:
    """The convex weights that make vectors @ w shortest, for vectors as columns.

    With u = t w, |V u|^2 + (1 - sum u)^2 is least where |V w| is: so one non-negative least squares
    problem gives the weights exactly, where Frank-Wolfe steps come closer only slowly.
    """
    size = np.linalg.norm(vectors, axis=0).max()
    rows = np.vstack([vectors / (size or 1.0), np.ones(vectors.shape[1])])
    found = nonnegative_least_squares(rows, np.eye(len(rows))[-1])
    return np.asarray(found / found.sum())


def mgda(gram: Floats) -> Floats:
    """K times the convex weights of the shortest combination."""
    return len(gram) * shortest(root_of(gram))
