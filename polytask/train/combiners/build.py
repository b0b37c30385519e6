"""A phase's combiner: from the recipe's word to the weights of an update's tasks, and what it remembers.

One convention of scale: weights stand in the place of a plain sum's, which are all 1. A method that is
published as an average is multiplied by the number of tasks, so that tasks of equal, orthogonal gradients
get the sum from every method but `mean` (and `random`, on average), and one task alone is left as it is. A
zero gradient has no say and counts as no task: with a scope of layers or tensors, a task that does not touch
one stops nobody else there.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor

from polytask.train.combiners.balance import aligned, imtl, nash
from polytask.train.combiners.cagrad import cagrad
from polytask.train.combiners.cone import dualproj, upgrad
from polytask.train.combiners.min_norm import mgda
from polytask.train.combiners.surgery import Vaccine, pcgrad
from polytask.train.combiners.unit import Floats
from polytask.update_choices import CombineRecipe

VACCINE_BETA = 0.01
CAGRAD_C = 0.5
TARGETS = "combiner.targets"

OF_ONE_GROUP: dict[str, Callable[[Floats], Floats]] = {
    "mgda": mgda,
    "imtl": imtl,
    "nash": nash,
    "aligned": aligned,
    "upgrad": upgrad,
    "dualproj": dualproj,
}


@final
class Combiner:
    """The weights of each update's tasks in each group of shared parameters."""

    def __init__(self, recipe: CombineRecipe, num_groups: int, num_tasks: int) -> None:
        self.kind = recipe.kind
        self._c = CAGRAD_C if recipe.c is None else recipe.c
        beta = VACCINE_BETA if recipe.beta is None else recipe.beta
        self._vaccine = Vaccine(beta, num_groups, num_tasks) if recipe.kind == "vaccine" else None

    def weigh(self, grams: Tensor, tasks: Sequence[int], random: np.random.Generator) -> Tensor:
        """Gram matrices [G, K, K] and the numbers of the K tasks -> weights [G, K], both fp64."""
        return torch.from_numpy(self._weigh(grams.numpy(), tasks, random))

    def _weigh(self, grams: Floats, tasks: Sequence[int], random: np.random.Generator) -> Floats:
        num_groups, num_rows = grams.shape[:2]
        match self.kind:
            case "sum":
                return np.ones((num_groups, num_rows))
            case "mean":
                return np.full((num_groups, num_rows), 1 / num_rows)
            case "random":  # Lin et al. 2022: a softmax of normal numbers
                drawn = np.exp(random.standard_normal((num_groups, num_rows)))
                return np.asarray(num_rows * drawn / drawn.sum(axis=1, keepdims=True))
            case "pcgrad":
                return pcgrad(grams, random)
            case "vaccine":
                assert self._vaccine is not None
                return self._vaccine(grams, tasks, random)
        rule = OF_ONE_GROUP.get(self.kind, lambda gram: cagrad(gram, self._c))
        return np.stack([weigh_group(rule, gram) for gram in grams])

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        return {} if self._vaccine is None else {TARGETS: torch.from_numpy(self._vaccine.targets.copy())}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """The inverse of `tensors`."""
        if self._vaccine is not None:
            self._vaccine.targets = tensors[TARGETS].numpy().copy()


def weigh_group(rule: Callable[[Floats], Floats], gram: Floats) -> Floats:
    """A rule's weights of the gradients that are not zero, in units in which the longest is 1 long."""
    weights = np.ones(len(gram))
    present = np.flatnonzero(np.diagonal(gram) > 0)
    if len(present):
        own = gram[np.ix_(present, present)]
        weights[present] = rule(own / np.diagonal(own).max())
    return weights
