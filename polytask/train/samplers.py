"""Which tasks the next update draws: a pure function of the progress, and a seeded draw from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from polytask.update_choices import COMPROMISE_DRAWS, SamplerRecipe

LEAST_EXTRA_SHARE = 0.025  # of a task in Compromise's draws beyond the one that every task has
FIRST_LOSS_POWER, LAST_LOSS_POWER = 0.2, 1.0  # Compromise's alpha', over the epochs


@dataclass(frozen=True)
class Progress:
    """Where a phase stands; `update` and `epoch` count from 0."""

    update: int
    epoch: int
    epochs: int
    updates: int = 1  # of the whole phase

    def annealed(self, first: float, last: float, *, per_step: bool) -> float:
        """What goes from `first` to `last` in equal steps, one an epoch or one an update.

        A phase of a single epoch (or update) stays at `first`, where the published formula divides by zero.
        """
        done, steps = (self.update, self.updates - 1) if per_step else (self.epoch, self.epochs - 1)
        return first + (last - first) * done / steps if steps > 0 else first


def task_shares(
    sampler: SamplerRecipe, sizes: Sequence[int], progress: Progress, names: Sequence[str] = ()
) -> list[float]:
    """The expected share of the draws for each task, given the number of its training rows.

    `names` are the tasks', which only weights given by hand need.
    """
    per_step = sampler.per == "step"
    match sampler.kind:
        case "weights":
            assert sampler.weights is not None
            weights = [sampler.weights[name] for name in names]
            return [weight / sum(weights) for weight in weights]
        case "compromise":
            shares = _by_size(sizes, progress.annealed(1.0, 0.2, per_step=per_step))
            return _with_each_once(shares, _compromise_draws(sampler, sizes), force=bool(sampler.force))
        case "round_robin" | "random" | "joint" | "cycle":
            power = 0.0
        case "proportional":
            power = 1.0
        case "sqrt":
            power = 0.5
        case "power":
            assert sampler.power is not None
            power = sampler.power
        case "temperature":
            assert sampler.temperature is not None
            power = 1 / sampler.temperature
        case "annealed":
            power = progress.annealed(1.0, 0.2, per_step=per_step)
    return _by_size(sizes, power)


def extra_shares(shares: Sequence[float], draws: int) -> list[float]:
    """Compromise's p' = (p M - 1) / (M - K), at least 0.025, for the draws beyond one of each task.

    Together with that one draw, a task then has about its share p of all M.
    """
    num_tasks = len(shares)
    spare = draws - num_tasks
    if spare <= 0:
        return [1 / num_tasks] * num_tasks
    floored = [max(LEAST_EXTRA_SHARE, (share * draws - 1) / spare) for share in shares]
    return [share / sum(floored) for share in floored]


def _by_size(sizes: Sequence[int], power: float) -> list[float]:
    largest = max(sizes)
    weights = [(size / largest) ** power for size in sizes]  # a ratio, so that no power overflows
    return [weight / sum(weights) for weight in weights]


def _with_each_once(shares: Sequence[float], draws: int, *, force: bool) -> list[float]:
    """The shares of all draws of an update that has one of each task and the rest by chance."""
    spare = draws - len(shares)
    extra = shares if force else extra_shares(shares, draws)
    return [(1 + spare * share) / draws for share in extra]


def _compromise_draws(sampler: SamplerRecipe, sizes: Sequence[int]) -> int:
    return max(sampler.draws or COMPROMISE_DRAWS, len(sizes))


@final
class Sampler:
    """Draws the tasks of each update from the seed and the update's number alone, so it holds no state."""

    def __init__(
        self, sampler: SamplerRecipe, sizes: Sequence[int], seed: Sequence[int], names: Sequence[str] = ()
    ) -> None:
        self.recipe = sampler
        self._sizes = sizes
        self._seed = list(seed)
        self._names = names

    @property
    def draws_per_update(self) -> int:
        match self.recipe.kind:
            case "joint" | "cycle":
                return len(self._sizes)
            case "compromise":
                return _compromise_draws(self.recipe, self._sizes)
            case _:
                return self.recipe.draws or 1

    def updates_per_epoch(self, batch_size: int) -> int:
        """An epoch draws as many batches as all tasks hold together; `cycle` uses the largest set up once."""
        batches = [-(-size // batch_size) for size in self._sizes]
        if self.recipe.kind == "cycle":
            return max(batches)
        return max(1, round(sum(batches) / self.draws_per_update))

    def shares(self, progress: Progress) -> list[float]:
        """The expected share of the draws for each task."""
        return task_shares(self.recipe, self._sizes, progress, self._names)

    def draw(self, progress: Progress) -> list[int]:
        """The tasks of one update, one number a draw, in order."""
        num_tasks, draws = len(self._sizes), self.draws_per_update
        if self.recipe.kind in ("joint", "cycle"):
            return list(range(num_tasks))
        if self.recipe.kind == "round_robin":
            first = progress.update * draws
            return sorted(number % num_tasks for number in range(first, first + draws))
        random = np.random.default_rng([*self._seed, progress.update])
        if self.recipe.kind == "compromise":
            shares = _by_size(self._sizes, progress.annealed(1.0, 0.2, per_step=self.recipe.per == "step"))
            extra = shares if self.recipe.force else extra_shares(shares, draws)
            chosen = random.choice(num_tasks, size=draws - num_tasks, p=extra)
            return sorted([*range(num_tasks), *map(int, chosen)])
        return sorted(int(task) for task in random.choice(num_tasks, size=draws, p=self.shares(progress)))

    def loss_factor(self, progress: Progress, count: int) -> float:
        """What the summed losses of a task drawn `count` times in an update are multiplied by.

        Compromise divides by count^alpha', alpha' growing from 0.2 to 1, its `force` variant by count; every
        other sampler adds its draws up.
        """
        if self.recipe.kind != "compromise":
            return 1.0
        if self.recipe.force:
            return 1 / count
        per_step = self.recipe.per == "step"
        return count ** -progress.annealed(FIRST_LOSS_POWER, LAST_LOSS_POWER, per_step=per_step)
