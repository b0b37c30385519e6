"""Records to labelled rows: what a text, a label and an id may be, and how a task's labels are named."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from polytask.data.sources import BadRow, Record, read_records
from polytask.errors import DataError, one_of
from polytask.recipe_tasks import TaskRecipe

DEFAULT_ID = "id"
WHOLE_NUMBER = re.compile(r"([+-]?[0-9]{1,18})\.0*")
MAX_SHOWN = 60
MAX_ALLOWED_SHOWN = 30

Label = str | float | tuple[str, ...] | None


@dataclass(frozen=True)
class Row:
    """One row of a task; the label is a name, a number, the names that hold (multilabel) or None."""

    line: int
    id: str
    texts: tuple[str, ...]
    label: Label
    max_tokens: int | None = None  # kept of this row, specials included


class _ProblemError(Exception):
    """What is wrong with the row at hand."""


def read_rows(path: Path, written: TaskRecipe, *, labelled: bool = True) -> Iterator[Row | BadRow]:
    """Stream a task's rows; with `labelled=False` the label columns are not looked at.

    The id is the cell of the column `written.id`; where a file has no column of the default name, it is
    the row's number from 0.
    """
    names = label_names(written)
    own_id = written.id != DEFAULT_ID
    columns = [*written.text, *(written.label if labelled else ())]
    records = read_records(
        path, [*columns, written.id] if own_id else columns, () if own_id else (DEFAULT_ID,)
    )
    for number, record in enumerate(records):
        if isinstance(record, BadRow):
            yield record
            continue
        try:
            texts = tuple(_text(record, column) for column in written.text)
            label = _label(record, written, names) if labelled else None
            yield Row(record.line, _row_id(record, written.id, number, own_id), texts, label)
        except _ProblemError as problem:
            yield BadRow(str(path), record.line, str(problem))


def label_names(written: TaskRecipe) -> dict[str, str] | None:
    """What stands in the file -> the label's name, in the outputs' order; None where the data decides."""
    if len(written.label) > 1 and written.labels is None:
        return {column: column for column in written.label}
    if written.labels is None:
        return None
    names: dict[str, str] = {}
    for found, name in written.labels.items():
        word = found if len(written.label) > 1 else canonical(found)
        if names.setdefault(word, name) != name:
            raise DataError(
                f"labels gives {word!r} two names, {names[word]!r} and {name!r} ('1.0' and '1' are one)."
            )
    missing = [column for column in written.label if len(written.label) > 1 and column not in names]
    if missing:
        raise DataError(f"labels should name every column of label. {missing[0]!r} is missing.")
    return names


def canonical(cell: object) -> str:
    """The word that a label cell stands for.

    Surrounding blanks do not count, and a whole number is the same label however it is written: `1`, `1.0`
    and JSON's `true` are all `"1"`, since columns that passed through floats hold `1.0`.
    """
    if isinstance(cell, bool):
        return str(int(cell))
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    word = str(cell).strip()
    whole = WHOLE_NUMBER.fullmatch(word)
    return str(int(whole.group(1))) if whole else word


def _text(record: Record, column: str) -> str:
    cell = record.values.get(column)
    if cell is None:
        raise _ProblemError(f"{column!r} is missing")
    if not isinstance(cell, str):
        raise _ProblemError(f"{column!r} should be text. Found {_short(cell)}")
    if not cell.strip():
        raise _ProblemError(f"{column!r} is empty")
    return cell


def _row_id(record: Record, column: str, number: int, required: bool) -> str:
    cell = record.values.get(column)
    if cell is None or cell == "":
        if required:
            raise _ProblemError(f"{column!r}, the id, is empty")
        return str(number)
    word = cell if isinstance(cell, str) else canonical(cell)
    if len(word) > 1000:
        raise _ProblemError(f"{column!r}, the id, is longer than 1,000 characters")
    return word


def _label(record: Record, written: TaskRecipe, names: Mapping[str, str] | None) -> Label:
    if len(written.label) > 1:
        assert names is not None
        return tuple(names[column] for column in written.label if _flag(record, column))
    column = written.label[0]
    cell = record.values.get(column)
    if written.kind == "multilabel":
        found = [_named(word, column, names) for word in _words(cell, column)]
        return tuple(dict.fromkeys(found))
    if (
        cell is None
        or (isinstance(cell, str) and not cell.strip())
        or (isinstance(cell, float) and cell != cell)
    ):
        raise _ProblemError(f"{column!r} is {'missing' if cell is None else 'empty'}")
    if written.kind == "regression":
        return _number(cell, column, written.range)
    if isinstance(cell, list | dict | bytes):
        raise _ProblemError(f"{column!r} should be one label. Found {_short(cell)}")
    return _named(canonical(cell), column, names)


def _named(word: str, column: str, names: Mapping[str, str] | None) -> str:
    if names is None:
        return word
    if word not in names:
        allowed = list(names)
        if len(allowed) > MAX_ALLOWED_SHOWN:
            raise _ProblemError(f"{column!r} should be one of {len(allowed)} labels. Found {_short(word)}")
        raise _ProblemError(f"{column!r} {one_of(allowed, word[:MAX_SHOWN])}".rstrip("."))
    return names[word]


def _words(cell: object, column: str) -> list[str]:
    """The labels in a multilabel cell: a list, or names joined by commas; an empty cell holds none."""
    if isinstance(cell, str):
        return [canonical(word) for word in cell.split(",") if word.strip()]
    if isinstance(cell, list) and all(isinstance(word, str | int | float) for word in cell):
        return [canonical(word) for word in cell]
    if cell is None:
        raise _ProblemError(f"{column!r} is missing")
    raise _ProblemError(f"{column!r} should be a list of labels. Found {_short(cell)}")


def _flag(record: Record, column: str) -> bool:
    cell = record.values.get(column)
    word = None if cell is None else canonical(cell)
    if word not in ("0", "1"):
        raise _ProblemError(f"{column!r} should be 0 or 1. Found {_short(cell)}")
    return word == "1"


def _number(cell: object, column: str, span: tuple[float, float] | None) -> float:
    try:
        value = float(cell) if isinstance(cell, str | int | float | Decimal) else math.nan
    except (ValueError, OverflowError):
        value = math.nan
    # float() also reads "1_000" and "infinity", which no file means as a number
    if not math.isfinite(value) or isinstance(cell, bool) or (isinstance(cell, str) and "_" in cell):
        raise _ProblemError(f"{column!r} is not a number. Found {_short(cell)}")
    if span is not None and not span[0] <= value <= span[1]:
        raise _ProblemError(f"{column!r} should be from {span[0]:g} to {span[1]:g}. Found {value:g}")
    return value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."
