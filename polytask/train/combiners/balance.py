"""Methods that give every task the same say, however long its gradient: IMTL-G, Nash-MTL, Aligned-MTL."""

import numpy as np
import torch

from polytask.train.combiners.unit import Floats, norms_and_cosines

LEAST_EIGENVALUE = 1e-6  # of cosines: below it two directions are one but for rounding
RIDGE = 1e-6  # exactly opposed gradients have no bargain; with it they cancel out
NEWTON_STEPS = 100


def imtl(gram: Floats) -> Floats:
    """IMTL-G (Liu et al. 2021): g has the same projection on every unit gradient; K times weights of sum 1.

    Weights of both signs are divided by the sum of their sizes instead: dividing by their sum would stretch
    the step without limit, or turn it round.
    """
    norms, cosines = norms_and_cosines(gram)
    values, vectors = np.linalg.eigh(cosines)
    kept = values > LEAST_EIGENVALUE
    along = vectors[:, kept].sum(axis=0)
    if along @ along < LEAST_EIGENVALUE:  # nothing is left in common, and rounding should not decide
        return np.zeros(len(norms))
    shares = vectors[:, kept] @ (along / values[kept]) / norms
    return np.asarray(len(gram) * shares / np.abs(shares).sum())


def nash(gram: Floats) -> Floats:
    """Nash-MTL (Navon et al. 2022): G a = 1 / a, scaled to the length of a sum of orthogonal gradients.

    The solution is where a^T G a / 2 - sum of log a_i is least; damped Newton steps reach it from anywhere.
    """
    norms, cosines = norms_and_cosines(gram)
    ridged = (cosines + RIDGE * np.eye(len(norms))) / (1 + RIDGE)
    bargain = np.full(len(norms), len(norms) ** -0.5)
    for _ in range(NEWTON_STEPS):
        slope = ridged @ bargain - 1 / bargain
        step = np.linalg.solve(ridged + np.diag(bargain**-2.0), slope)
        decrement = np.sqrt(max(float(slope @ step), 0.0))
        bargain = bargain - (step if decrement < 0.25 else step / (1 + decrement))
        if decrement < 1e-12:
            break
    return np.asarray(bargain / norms * np.sqrt((norms**2).mean()))


def aligned(gram: Floats) -> Floats:
    """Aligned-MTL (Senushkin et al. 2023): K times the mean, once all principal components are equally long.

    torchjd takes an eigenvalue for 0 by what its type can tell: in fp32, no finer than the gradients are.
    """
    from torchjd.aggregation import AlignedMTLWeighting  # takes half a second

    weights: Floats = AlignedMTLWeighting()(torch.from_numpy(gram).float()).double().numpy()
    return len(gram) * weights
