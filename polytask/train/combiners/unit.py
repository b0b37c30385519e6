"""Gradients as lengths and directions, so that no method depends on how large they are."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ROUNDING = 1e-13  # of the largest eigenvalue: its root would look like a direction of its own


def norms_and_cosines(grams: Floats) -> tuple[Floats, Floats]:
    """Norms [..., K] and cosines [..., K, K] from Gram matrices; a zero gradient has cosine 0 with all."""
    norms = np.sqrt(np.maximum(np.diagonal(grams, axis1=-2, axis2=-1), 0))
    inverse = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    cosines = np.clip(grams * inverse[..., :, None] * inverse[..., None, :], -1, 1)
    places = np.arange(norms.shape[-1])
    cosines[..., places, places] = norms > 0
    return norms, cosines


def root_of(gram: Floats) -> Floats:
    """Vectors with these dot products, as columns [K, K]."""
    values, vectors = np.linalg.eigh(gram)
    kept = np.where(values > ROUNDING * values[-1], values, 0)
    root: Floats = np.sqrt(kept)[:, None] * vectors.T
    return root
