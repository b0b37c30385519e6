"""GEM and A-GEM: how an update's gradient is kept from undoing what the memory's gradients stand for.

Both are functions of dot products: with g the gradient of the tasks at hand and G the memory's gradients, one
a row, the update is g + G'v. No weight is negative: no step climbs a remembered task's loss on purpose.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from polytask.train.combiners.nonnegative import nonnegative_least_squares
from polytask.train.gradients import Weigh
from polytask.update_choices import GEM_MARGIN, MemoryRecipe

Vector = npt.NDArray[np.float64]


def gem_weights(inner: Vector, along: Vector, squared: float, margin: float, ridge: float = 0.0) -> Vector:
    """GEM's v [K] from GG' [K, K], Gg [K] and g'g: min ½ v'GG'v + g'G'v over v >= margin.

    Nothing is added unless some memory disagrees, Gg < 0. The reference adds 1e-3 to the diagonal for its
    solver's sake, which lets constraints slip by 1e-3 v; `ridge` does that here, where no solver needs it.
    """
    num_tasks = len(along)
    if not (along < 0).any():
        return np.zeros(num_tasks)
    # A factor of all K + 1 gradients' Gram holds vectors with the same dot products, K + 1 numbers each.
    gram = np.block([[inner, along[:, None]], [along[None, :], np.array([[squared]])]])
    values, vectors = np.linalg.eigh(gram)
    places = np.sqrt(np.clip(values, 0, None))[:, None] * vectors.T  # [K + 1, K + 1], one gradient a column
    memory, current = places[:, :-1], places[:, -1]
    if ridge:
        memory = np.vstack([memory, ridge**0.5 * np.eye(num_tasks)])
        current = np.concatenate([current, np.zeros(num_tasks)])
    # With v = margin + u: min |G'u + (g + margin G'1)| over u >= 0. Columns of length 1 keep it well scaled.
    target = -(current + margin * memory.sum(axis=1))
    sizes = np.linalg.norm(memory, axis=0)
    sizes[sizes == 0] = 1
    length = float(np.linalg.norm(target)) or 1.0
    found = nonnegative_least_squares(memory / sizes, target / length)
    return margin + found * length / sizes


def agem_weight(squared: float, along: float) -> float:
    """A-GEM's weight of the one reference gradient r, from r·r and g·r: what g has against r is taken out."""
    return -along / squared if along < 0 and squared > 0 else 0.0


def hold_to_memory(memory: MemoryRecipe, num_tasks: int) -> Weigh:
    """The weights of an update whose rows are tasks at hand, numbered below `num_tasks`, and memory.

    Tasks at hand are added up. Each group of tensors is weighed by itself.
    """
    margin = GEM_MARGIN if memory.margin is None else memory.margin

    def weigh(grams: Tensor, tasks: Sequence[int]) -> Tensor:
        remembered = np.array([task >= num_tasks for task in tasks])
        weights = np.tile(np.where(remembered, 0.0, 1.0), (len(grams), 1))
        if not remembered.any() or not bool(
            torch.isfinite(grams).all()
        ):  # a loss that is no number ends the run
            return torch.from_numpy(weights)
        for group, gram in enumerate(grams.double().cpu().numpy()):
            inner = gram[np.ix_(remembered, remembered)]
            along = gram[np.ix_(remembered, ~remembered)].sum(axis=1)
            squared = float(gram[np.ix_(~remembered, ~remembered)].sum())
            if memory.kind == "agem":
                weights[group, remembered] = agem_weight(float(inner.sum()), float(along.sum()))
            else:
                weights[group, remembered] = gem_weights(inner, along, squared, margin, memory.ridge or 0.0)
        return torch.from_numpy(weights)

    return weigh
