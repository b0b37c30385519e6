"""Which tasks the next update draws: a pure function of the progress, and a seeded draw from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from polytask.choices import SamplerRecipe


@dataclass(frozen=True)
class Progress:
    """Where a phase stands; both count from 0."""

    update: int
    epoch: int
    epochs: int


def task_shares(sampler: SamplerRecipe, sizes: Sequence[int], progress: Progress) -> list[float]:
    """The expected share of the draws for each task, given the number of its training rows."""
    match sampler.kind:
        case "round_robin" | "joint":
            power = 0.0
        case "proportional":
            power = 1.0
        case "annealed":
            power = annealed_power(progress.epoch + 1, progress.epochs)
    weights = [size**power for size in sizes]
    return [weight / sum(weights) for weight in weights]


def annealed_power(epoch: int, epochs: int) -> float:
    """alpha = 1 - 0.8 (e - 1) / (E - 1), e from 1; a single epoch keeps alpha = 1, where annealing starts."""
    return 1 - 0.8 * (epoch - 1) / (epochs - 1) if epochs > 1 else 1.0


@final
class Sampler:
    """Draws the tasks of each update from the seed and the update's number alone, so it holds no state."""

    def __init__(self, sampler: SamplerRecipe, sizes: Sequence[int], seed: Sequence[int]) -> None:
        self._sampler = sampler
        self._sizes = sizes
        self._seed = list(seed)

    @property
    def draws_per_update(self) -> int:
        return len(self._sizes) if self._sampler.kind == "joint" else 1

    def draw(self, progress: Progress) -> list[int]:
        """The tasks of one update, one number a draw."""
        num_tasks = len(self._sizes)
        if self._sampler.kind == "joint":
            return list(range(num_tasks))
        if self._sampler.kind == "round_robin":
            return [progress.update % num_tasks]
        random = np.random.default_rng([*self._seed, progress.update])
        shares = task_shares(self._sampler, self._sizes, progress)
        return [int(random.choice(num_tasks, p=shares))]
