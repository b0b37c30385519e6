"""Predictions for files and standard input, streamed in bounded memory."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from polytask.data.rows import Row, read_rows
from polytask.data.sources import BadRow
from polytask.deploy.model import Model
from polytask.errors import DataError, UserError
from polytask.tasks import Task

ROWS_PER_CHUNK = 1024


def predict_file(model: Model, task: str | None, path: Path) -> Iterator[dict[str, Any]]:
    """Records for every row of a file and every task asked of it, in the file's order.

    The file has the columns that the task's training file had; labels are not looked at.
    """
    names = [task] if task is not None else list(model.tasks)
    sources = {name: model.source(name) for name in names}
    different = {(source.text, source.id) for source in sources.values()}
    if len(different) > 1:
        raise UserError(f"{path}: the model's tasks read different columns: choose one with --task.")
    rows = read_rows(path, sources[names[0]], labelled=False)
    yield from _predict(model, names, _only_good(rows))


def predict_lines(model: Model, task: str | None, stream: BinaryIO) -> Iterator[dict[str, Any]]:
    """Records for every line of a stream; the sentences of a pair are separated by a tab."""
    if task is not None:
        names = [task]
    else:
        counts = {item.texts for item in model.tasks.values()}
        if len(counts) > 1:
            raise UserError("the model has tasks of sentences and of pairs: choose one with --task.")
        names = list(model.tasks)
    yield from _predict(model, names, _line_rows(model.task(names[0]), stream))


def _predict(model: Model, names: list[str], rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """All tasks of a chunk of rows, then the next chunk."""
    rows = iter(rows)
    number = 0
    while chunk := list(islice(rows, ROWS_PER_CHUNK)):
        texts: Any = [row.texts if len(row.texts) == 2 else row.texts[0] for row in chunk]
        found = {name: model.predict(name, texts) for name in names}
        for place, row in enumerate(chunk):
            for name in names:
                yield {"row": number + place, "id": row.id, "task": name, **found[name][place]}
        number += len(chunk)


def _only_good(rows: Iterable[Row | BadRow]) -> Iterator[Row]:
    for row in rows:
        if isinstance(row, BadRow):
            raise DataError(str(row))
        yield row


def _line_rows(task: Task, stream: BinaryIO) -> Iterator[Row]:
    for number, raw in enumerate(stream):
        try:
            text = raw.decode("utf-8-sig" if number == 0 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise DataError(f"standard input:{number + 1}: not UTF-8.") from None
        texts = tuple(text.split("\t")) if task.texts == 2 else (text,)
        if len(texts) != task.texts or not all(part.strip() for part in texts):
            wanted = "two texts separated by a tab" if task.texts == 2 else "a text"
            raise DataError(f"standard input:{number + 1}: should be {wanted}. Found {text[:60]!r}.")
        yield Row(number + 1, str(number), texts, None)
