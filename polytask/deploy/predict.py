"""Predictions for files and standard input, streamed in bounded memory."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from polytask.data.delimited import MAX_LINE
from polytask.data.rows import Row, read_rows
from polytask.data.sources import BadRow
from polytask.deploy.model import Model
from polytask.errors import DataError, UserError
from polytask.tasks import Task

ROWS_PER_CHUNK = 1024


def predict_file(model: Model, task: str | None, path: Path) -> Iterator[dict[str, Any]]:
    """Records for every row of a file and every task asked of it, in the file's order.

    The file has the columns that the task's training file had; labels are not looked at. Unless a task is
    named, it is asked all tasks whose columns it has.
    """
    names = [task] if task is not None else _tasks_that_fit(model, path)
    rows = read_rows(path, model.source(names[0]), labelled=False)
    yield from _predict(model, names, _only_good(rows))


def _tasks_that_fit(model: Model, path: Path) -> list[str]:
    """The tasks whose columns a file has; they have to read the same ones."""
    found: dict[tuple[object, ...], list[str]] = {}
    problems: list[str] = []
    for name in model.tasks:
        source = model.source(name)
        try:
            next(read_rows(path, source, labelled=False))
            found.setdefault((source.text, source.id), []).append(name)
        except DataError as error:
            problems.extend(str(error).splitlines())
    if not found:
        raise DataError("\n".join(dict.fromkeys(problems)))
    if len(found) > 1:
        fitting = ", ".join(name for names in found.values() for name in names)
        raise UserError(
            f"{path} fits tasks that read different columns: choose one of {fitting} with --task."
        )
    return next(iter(found.values()))


def predict_lines(model: Model, task: str | None, stream: BinaryIO) -> Iterator[dict[str, Any]]:
    """Records for every line of a stream; the sentences of a pair are separated by a tab."""
    if task is not None:
        names = [task]
    else:
        counts = {item.texts for item in model.tasks.values()}
        if len(counts) > 1:
            allowed = ", ".join(model.tasks)
            raise UserError(
                f"the model has tasks of sentences and of pairs: choose one of {allowed} with --task."
            )
        names = list(model.tasks)
    yield from _predict(model, names, _line_rows(model.task(names[0]), stream))


def _predict(model: Model, names: list[str], rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """All tasks of a chunk of rows, then the next chunk."""
    rows = iter(rows)
    number = 0
    while chunk := list(islice(rows, ROWS_PER_CHUNK)):
        texts: Any = [row.texts if len(row.texts) == 2 else row.texts[0] for row in chunk]
        found = model.predict(dict.fromkeys(names, texts))
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
    for number, raw in enumerate(iter(lambda: stream.readline(MAX_LINE + 1), b"")):
        if len(raw) > MAX_LINE:
            raise DataError(f"standard input:{number + 1}: is longer than {MAX_LINE:,} bytes.")
        try:
            text = raw.decode("utf-8-sig" if number == 0 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise DataError(f"standard input:{number + 1}: not UTF-8.") from None
        texts = tuple(text.split("\t")) if task.texts == 2 else (text,)
        if len(texts) != task.texts or not all(part.strip() for part in texts):
            wanted = "two texts separated by a tab" if task.texts == 2 else "a text"
            raise DataError(f"standard input:{number + 1}: should be {wanted}. Found {text[:60]!r}.")
        yield Row(number + 1, str(number), texts, None)
