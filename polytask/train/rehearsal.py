"""Which remembered rows an update draws beside those of its own tasks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import final

import numpy as np

from polytask.data.padding import Ints
from polytask.data.tokens import TokenTable
from polytask.tasks import Task
from polytask.update_choices import MEMORY_ROWS, MemoryRecipe

REHEARSAL_STREAM = 3  # keeps these random numbers apart from the sampler's and others'


@final
class Rehearsal:
    """Draws from memory by the seed and the update's number alone, so it holds no state."""

    def __init__(
        self,
        recipe: MemoryRecipe,
        tasks: Sequence[Task],
        tables: Mapping[str, TokenTable],
        batch_size: int,
        seed: Sequence[int],
    ) -> None:
        self.tasks = tuple(tasks)
        self.tables = tables
        self._recipe = recipe
        self._batch_size = recipe.batch_size or batch_size
        self._sizes = [min(recipe.rows or MEMORY_ROWS, tables[task.name].num_rows) for task in tasks]
        self._seed = list(seed)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(task.name for task in self.tasks)

    @property
    def projects(self) -> bool:
        """Whether the gradients of memory are kept apart."""
        return self._recipe.projects and len(self.tasks) > 0

    def draw(self, update: int) -> Iterator[tuple[int, Ints, float]]:
        """The rows of each remembered task that has any in this update, with the factor of their mean loss.

        GEM compares tasks one by one, so each has its own mean; A-GEM and replay take the mean over all rows.
        """
        random = np.random.default_rng([*self._seed, update, REHEARSAL_STREAM])
        counts = self._counts(update)
        for number, (size, count) in enumerate(zip(self._sizes, counts, strict=True)):
            if count:
                rows = np.sort(random.choice(size, size=count, replace=False))
                yield number, rows, 1.0 if self._recipe.kind == "gem" else count / sum(counts)

    def row(self, number: int) -> int:
        """The engine's row for a remembered task's gradient, counted from the last of the new tasks'."""
        return 0 if self._recipe.kind == "agem" else number

    def _counts(self, update: int) -> list[int]:
        """The batch in even parts; what does not divide goes to each task in turn."""
        num_tasks = len(self.tasks)
        even, rest = divmod(self._batch_size, num_tasks) if num_tasks else (0, 0)
        return [
            min(size, even + int((number - update * rest) % num_tasks < rest))
            for number, size in enumerate(self._sizes)
        ]
