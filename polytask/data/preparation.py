"""What is done to training rows: the longest are left out, copies added, classes evened out."""

import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from polytask.data.augment import SYNONYMS, Rates, augment
from polytask.data.cache import file_hash
from polytask.data.rows import Row
from polytask.recipe import Recipe
from polytask.recipe_tasks import TaskRecipe
from polytask.tasks import Task

VERSION = 1  # counts up when the same recipe and rows give other rows

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Measured:
    """The rows of one file: the characters of each, both sentences of a pair together, and its class."""

    lengths: Ints  # [N]
    classes: tuple[str, ...]  # [N]; empty where the labels are no classes


@dataclass(frozen=True)
class Plan:
    """Which sound rows of a split are used, and how often each comes again."""

    kept: npt.NDArray[np.bool_]  # [N] of the files' rows
    repeats: Ints  # [N] times that a row comes again as it is
    changed: Ints  # [N] times that it comes again, changed by EDA
    rates: Rates
    seed: tuple[int, ...]
    limits: tuple[int, ...]  # of each file, the characters of its longest row that was kept
    before: dict[str, int]  # rows of each class in the task's own file
    after: dict[str, int]

    @property
    def origins(self) -> Ints:
        """[M] the row that each row of the table comes from; the first of each is the row itself."""
        return np.repeat(np.arange(len(self.kept)), self._times)

    @property
    def num_rows(self) -> int:
        return int(self._times.sum())

    @property
    def _times(self) -> Ints:
        return np.where(self.kept, 1 + self.repeats + self.changed, 0)

    def key(self) -> list[object]:
        """What decides the rows beside the files, for the name of a cache entry."""
        times = np.stack([self._times, self.changed])
        table = file_hash(SYNONYMS) if self.changed.any() else None
        return [VERSION, zlib.crc32(times.tobytes()), repr(self.rates), self.seed, table]

    def describe(self) -> dict[str, Any]:
        """What was done, in numbers."""
        done = {
            "read": len(self.kept),
            "left_out": int((~self.kept).sum()),
            "repeated": int(self.repeats.sum()),
            "augmented": int(self.changed.sum()),
            "rows": self.num_rows,
        }
        return {**done, "classes_before": self.before, "classes_after": self.after} if self.before else done


def measure(rows: Iterable[Row]) -> Measured:
    """One pass over a file's sound rows."""
    lengths: list[int] = []
    classes: list[str] = []
    for row in rows:
        lengths.append(sum(map(len, row.texts)))
        if isinstance(row.label, str):
            classes.append(row.label)
    return Measured(np.array(lengths, dtype=np.int64), tuple(classes))


def is_prepared(recipe: Recipe, written: TaskRecipe) -> bool:
    """Whether the training rows of a task are not just those of its own file."""
    more = bool(written.join) or (recipe.train_on_dev and written.dev is not None)
    copied = written.augment.kind != "none" or written.balance != "none"
    return more or copied or bool(_share(recipe, written))


def make_plan(recipe: Recipe, task: Task, written: TaskRecipe, files: Sequence[Measured]) -> Plan:
    """What the recipe asks for, row by row."""
    share, copies = _share(recipe, written), written.augment.num_copies()
    of_file = [_without_longest(file.lengths, share) for file in files]
    kept = np.concatenate(of_file)
    classes = np.array([name for file in files for name in file.classes], dtype=object)
    seed = (recipe.seed, zlib.crc32(task.name.encode()))
    changed, added = np.where(kept, copies, 0), np.zeros(len(kept), dtype=np.int64)
    if written.balance != "none":
        added = _evened_out(classes, changed + kept, np.random.default_rng([*seed, 0]))
    if written.balance == "eda":
        changed, added = changed + added, np.zeros_like(added)
    return Plan(
        kept=kept,
        repeats=added,
        changed=changed,
        rates=Rates(**written.augment.rates()),
        seed=seed,
        limits=tuple(int(file.lengths[rows].max()) for file, rows in zip(files, of_file, strict=True)),
        before=_count(task, classes[: len(files[0].classes)], np.ones(len(files[0].lengths), np.int64)),
        after=_count(task, classes, np.where(kept, 1 + added + changed, 0)),
    )


def prepared(rows: Iterable[Row], plan: Plan) -> Iterator[Row]:
    """The rows that a plan keeps, each followed by its copies; one that EDA cannot change comes as it is."""
    random = np.random.default_rng([*plan.seed, 1])
    for number, row in enumerate(rows):
        if number >= len(plan.kept) or not plan.kept[number]:
            continue
        yield row
        for _ in range(int(plan.repeats[number])):
            yield row
        for _ in range(int(plan.changed[number])):
            texts = augment(row.texts, plan.rates, random)
            yield row if texts is None else replace(row, texts=texts)


def _share(recipe: Recipe, written: TaskRecipe) -> float:
    return recipe.drop_longest if written.drop_longest is None else written.drop_longest


def _without_longest(lengths: Ints, share: float) -> npt.NDArray[np.bool_]:
    """All but the longest rows; of equally long ones the last go first."""
    kept = np.ones(len(lengths), dtype=np.bool_)
    left_out = math.floor(share * len(lengths))
    if left_out:
        kept[np.argsort(lengths, kind="stable")[-left_out:]] = False
    return kept


def _evened_out(classes: Any, times: Ints, random: np.random.Generator) -> Ints:
    """How often each row has to come again so that every class has as many rows as the largest."""
    rows_of = {name: np.flatnonzero((classes == name) & (times > 0)) for name in dict.fromkeys(classes)}
    totals = {name: int(times[rows].sum()) for name, rows in rows_of.items()}
    added = np.zeros_like(times)
    for name, rows in rows_of.items():
        if len(rows) > 0:
            each, rest = divmod(max(totals.values()) - totals[name], len(rows))
            added[rows] = each
            added[random.permutation(rows)[:rest]] += 1
    return added


def _count(task: Task, classes: Any, times: Ints) -> dict[str, int]:
    """The rows of each class; of what is no classification, nothing."""
    if task.kind != "classification":
        return {}
    return {label: int(times[classes == label].sum()) for label in task.labels}
