"""The texts of a few rows, read again from the data file that a run was scored on."""

from collections.abc import Collection
from itertools import islice
from math import isclose
from pathlib import Path

from polytask.data.rows import Label, Row, read_rows
from polytask.errors import UserError
from polytask.recipe_tasks import TaskRecipe
from polytask.report.answers import Answered

MAX_RECORDS = 1_000_000


def find_texts(
    written: TaskRecipe, base: Path, found: Answered, wanted: Collection[int]
) -> dict[int, tuple[str, ...]]:
    """The texts of the rows `wanted`; a row that the file does not hold (any more) is left out.

    Answers and file have the same order, and the file may hold bad rows besides: so it is gone through once,
    and a row is taken to be the next answer's if id and label are the same.
    """
    if written.dev is None or not wanted:
        return {}
    texts: dict[int, tuple[str, ...]] = {}
    place, last = 0, max(wanted)
    try:
        for row in islice(read_rows(base / written.dev, written), MAX_RECORDS):
            if not isinstance(row, Row) or row.id != found.ids[place] or not _same(row.label, found, place):
                continue
            if place in wanted:
                texts[place] = row.texts
            if place == last:
                break
            place += 1
    except UserError:  # the file is gone, or is another one by now
        return texts
    return texts


def _same(label: Label, found: Answered, row: int) -> bool:
    """Whether a row of the file has the label that was written beside the answer."""
    match label:
        case str():
            return found.kind == "classification" and label == found.labels[found.targets[row]]
        case float() | int():
            target = found.targets[row]  # it went through six digits of a float32
            return found.kind == "regression" and isclose(label, target, rel_tol=1e-5, abs_tol=1e-9)
        case tuple():
            given = {name for name, flag in zip(found.labels, found.targets[row], strict=True) if flag}
            return found.kind == "multilabel" and set(label) == given
    return False
