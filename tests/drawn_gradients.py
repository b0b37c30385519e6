"""Gradients that hypothesis draws: any number and length, with zeros, copies, opposites and wild scales."""

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@st.composite
def gradients(draw: st.DrawFn, most: int = 8, *, zeros: bool = True, scales: bool = True) -> Floats:
    """K gradients as rows [K, P]."""
    num_rows = draw(st.integers(1, most))
    length = draw(st.integers(2, 12))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = random.standard_normal((num_rows, length))
    kinds = ["own", "own", "copy", "opposite", "near"] + ["zero"] * zeros
    for row in range(1, num_rows):
        match draw(st.sampled_from(kinds)):
            case "copy":
                rows[row] = rows[row - 1]
            case "opposite":
                rows[row] = -rows[row - 1]
            case "near":
                rows[row] = rows[row - 1] + 0.1 * rows[row]
            case "zero":
                rows[row] = 0
    if scales:
        rows *= 10.0 ** draw(st.integers(-12, 12))
        rows *= 10.0 ** random.uniform(-3, 3, (num_rows, 1))
    return rows


def gram_of(rows: Floats) -> Floats:
    return rows @ rows.T


def orders(num_rows: int, random: np.random.Generator) -> list[list[int]]:
    """The orders in which each row meets the others, as the combiners draw them."""
    return [[int(j) for j in random.permutation(num_rows) if j != i] for i in range(num_rows)]
