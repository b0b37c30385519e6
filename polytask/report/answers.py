"""A task's answers to its dev rows, read from where the run folder keeps them."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from polytask.evaluate.metrics import Array
from polytask.recipe_tasks import Kind

MAX_ROWS = 200_000
MAX_CELLS = 20_000_000  # probabilities held in memory
FIXED = ["row", "id", "target", "answer"]


@dataclass(frozen=True)
class Answered:
    """Dev rows with what is true and what was answered."""

    kind: Kind
    labels: tuple[str, ...]
    ids: list[str]
    targets: Array  # int [N] classes, bool [N, C] flags or float [N] values
    answers: Array  # of the same shape
    probabilities: Array  # [N, C]; [N, 0] for a regression
    whole: bool = True  # whether these are all rows of the file

    @property
    def wrong(self) -> Array:
        """bool [N]: rows whose answer is not what is true; of a regression, all that are off."""
        different = np.asarray(self.answers != self.targets)
        return np.asarray(different.any(axis=1)) if different.ndim == 2 else different

    def word(self, values: Array, row: int) -> str:
        """A row's target or answer as people write it."""
        value = values[row]
        match self.kind:
            case "classification":
                return self.labels[int(value)]
            case "multilabel":
                return ", ".join(label for label, given in zip(self.labels, value, strict=True) if given)
            case "regression":
                return f"{float(value):.4g}".replace("-", "\u2212")


def read_answers(path: Path, kind: Kind) -> Answered | None:
    """Read `predictions/TASK-dev.csv`; None if it is not there, is damaged or holds no row to use."""
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            rows = csv.reader(file)
            head = next(rows, [])
            labels = tuple(cell.removeprefix("p(").removesuffix(")") for cell in head[len(FIXED) :])
            if head[: len(FIXED)] != FIXED or bool(labels) == (kind == "regression"):
                return None
            return _gather(rows, kind, labels)
    except (OSError, csv.Error):
        return None


def _gather(rows: Iterator[list[str]], kind: Kind, labels: tuple[str, ...]) -> Answered | None:
    most = min(MAX_ROWS, MAX_CELLS // max(1, len(labels)))
    ids: list[str] = []
    targets, answers, probabilities = [], [], []
    whole = True
    for cells in rows:
        if len(ids) == most:
            whole = False
            break
        try:
            target, answer = (_value(kind, labels, cells[place]) for place in (2, 3))
            shares = np.array(cells[len(FIXED) :], dtype=np.float32)
        except (ValueError, IndexError):  # cut off, or without a target
            continue
        if len(shares) == len(labels) and bool(np.isfinite(shares).all()):
            ids.append(cells[1])
            targets.append(target)
            answers.append(answer)
            probabilities.append(shares)
    if not ids:
        return None
    return Answered(kind, labels, ids, np.array(targets), np.array(answers), np.array(probabilities), whole)


def _value(kind: Kind, labels: tuple[str, ...], cell: str) -> int | float | list[bool]:
    """What a cell says; raises ValueError if that is nothing."""
    match kind:
        case "classification":
            return labels.index(cell)
        case "multilabel":
            return _flags(labels, cell)
        case "regression":
            value = float(cell)
            if not np.isfinite(value):
                raise ValueError(cell)
            return value


def _flags(labels: tuple[str, ...], cell: str) -> list[bool]:
    """Which labels a cell joins with commas, in the labels' order, since a label may hold a comma itself."""
    flags, rest = [], cell
    for label in labels:
        given = rest == label or rest.startswith(f"{label},")
        flags.append(given)
        rest = rest[len(label) + 1 :] if given else rest
    if rest:
        raise ValueError(cell)
    return flags
