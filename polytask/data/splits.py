"""What a split of a task is made of: its files, how each is read, and which of their rows are used."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt

from polytask.data.preparation import Plan, prepared
from polytask.data.rows import Row, read_rows
from polytask.data.scan import Scan, is_labelled, scan_key
from polytask.recipe import Recipe
from polytask.recipe_preparation import JoinRecipe
from polytask.recipe_tasks import TaskRecipe
from polytask.tasks import Task

SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class File:
    """One file of a split, and how it is read."""

    key: str  # of the task's recipe
    path: Path
    written: TaskRecipe
    labelled: bool = True
    max_tokens: int | None = None  # kept of a row, specials included

    def rows(self) -> Iterator[Row]:
        """The rows without the bad ones."""
        for row in read_rows(self.path, self.written, labelled=self.labelled):
            if isinstance(row, Row):
                yield row if self.max_tokens is None else replace(row, max_tokens=self.max_tokens)


@dataclass(frozen=True)
class Part:
    """A file of a split, as a first pass found it."""

    file: File
    scan: Scan


@dataclass(frozen=True)
class Split:
    """The files of a split one after the other, and what was done to their rows."""

    name: str
    parts: tuple[Part, ...]
    plan: Plan | None = None  # None: every sound row once

    @property
    def labelled(self) -> bool:
        return self.parts[0].file.labelled

    @property
    def num_rows(self) -> int:
        """The rows that its table has."""
        return self.plan.num_rows if self.plan is not None else sum(part.scan.num_rows for part in self.parts)

    def rows(self) -> Iterator[Row]:
        """The rows of its table, in the same order every time."""
        rows = (row for part in self.parts for row in part.file.rows())
        return rows if self.plan is None else prepared(rows, self.plan)

    def key(self) -> list[object]:
        """Everything that decides what its rows are, for the name of a cache entry."""
        files = [
            (scan_key(part.file.path, part.file.written, labelled=self.labelled), part.file.max_tokens)
            for part in self.parts
        ]
        return [files, self.plan.key() if self.plan is not None else None]

    def origins(self) -> npt.NDArray[np.int64]:
        """[M] the sound row of its files, counted through them all, that each row of its table comes from."""
        return np.arange(self.num_rows) if self.plan is None else self.plan.origins

    def starts(self) -> list[int]:
        """The first sound row of each file, counted as in `origins`."""
        return list(accumulate((part.scan.num_rows for part in self.parts[:-1]), initial=0))


@dataclass(frozen=True)
class CheckedTask:
    """A task whose files are sound; `written` has the labels that its training file settled."""

    task: Task
    written: TaskRecipe
    splits: tuple[Split, ...]


def split_files(recipe: Recipe, written: TaskRecipe) -> Iterator[tuple[str, tuple[File, ...]]]:
    """The files of each split; with `train_on_dev` those of dev belong to train."""
    named = {split: getattr(written, split) for split in SPLITS}
    own = {
        split: File(split, recipe.base / name, written) for split, name in named.items() if name is not None
    }
    joined = [_joined(recipe, written, number) for number in range(len(written.join))]
    dev = [own.pop("dev")] if recipe.train_on_dev and "dev" in own else []
    for split, file in own.items():
        yield split, (file, *joined, *dev) if split == "train" else (file,)


def find_labels(file: File) -> File:
    """The file as it is to be read: test files need no labels, and where they have none, none are read."""
    return replace(file, labelled=file.key != "test" or is_labelled(file.path, file.written))


def _joined(recipe: Recipe, written: TaskRecipe, number: int) -> File:
    """A file that is joined to the task's own, read as the task's unless it says otherwise."""
    join: JoinRecipe = written.join[number]
    given = {"text": join.text, "label": join.label, "labels": join.labels, "id": join.id}
    changes = {key: value for key, value in given.items() if value is not None}
    return File(
        f"join.{number}",
        recipe.base / join.file,
        written.model_copy(update=changes),
        max_tokens=join.max_length,
    )
