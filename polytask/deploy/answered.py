"""A run's answers to the rows of one file, checked row by row against that file."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from polytask.data.rows import Row, read_rows
from polytask.deploy.model import Model, load
from polytask.deploy.predict import predict_file
from polytask.errors import DataError, UserError
from polytask.recipe import Recipe
from polytask.recipe_tasks import TaskRecipe


@dataclass(frozen=True)
class Answer:
    """What a model says of one row: the word that stands for its label in the task's files, or a number."""

    id: str
    word: str
    value: float


@final
class AnsweredRun:
    """A finished run: its tasks, and answers from its files or, where it has none, from its model."""

    def __init__(self, folder: Path) -> None:
        if not (folder / "recipe.toml").is_file():
            raise UserError(f"{folder}: should be a run folder, whose recipe says which test rows there are.")
        self.folder = folder
        self.recipe = Recipe.load(folder / "recipe.toml")
        self._model: Model | None = None

    @property
    def tasks(self) -> dict[str, TaskRecipe]:
        """The tasks by name, with absolute paths."""
        return self.recipe.tasks

    def answers(self, task: str, split: str, path: Path) -> list[Answer]:
        """One answer a row of `path`, in its order; the run's own are taken from its folder."""
        own = getattr(self.tasks[task], split, None)
        predictions = self.folder / "predictions" / f"{task}-{split}.csv"
        if own is not None and Path(own) == path and predictions.is_file():
            found, where = list(_written(predictions)), str(predictions)
        else:
            self._model = self._model or load(self.folder)
            found, where = list(_predicted(self._model, task, path)), "the model"
        self._check(task, path, [key for key, _ in found], where)
        return [_answer(self.tasks[task], key, said) for key, said in found]

    def _check(self, task: str, path: Path, found: list[str], where: str) -> None:
        wanted = [row.id for row in _sound(path, self.tasks[task])]
        if len(found) != len(wanted):
            raise DataError(
                f"{task}: {where} has {len(found):,} answers to the {len(wanted):,} rows of {path}; "
                "the file has changed, or rows of it were left out."
            )
        for number, (given, right) in enumerate(zip(found, wanted, strict=True)):
            if given != right:
                raise DataError(f"{task}: row {number} of {where} has the id {given!r}, of {path} {right!r}.")


def _sound(path: Path, written: TaskRecipe) -> Iterator[Row]:
    for row in read_rows(path, written, labelled=False):
        if not isinstance(row, Row):
            raise DataError(f"{row}; a submission needs every row.")
        yield row


def _written(path: Path) -> Iterator[tuple[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield row["id"], row["answer"]


def _predicted(model: Model, task: str, path: Path) -> Iterator[tuple[str, str]]:
    for record in predict_file(model, task, path):
        said: Any = record["value"] if "value" in record else record.get("label", "")
        yield record["id"], str(said)


def _answer(written: TaskRecipe, key: str, said: str) -> Answer:
    if written.kind == "regression":
        return Answer(key, said, float(said))
    word = next((found for found, name in (written.labels or {}).items() if name == said), said)
    return Answer(key, word, 0.0)
