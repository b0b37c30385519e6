"""Predictions for files and standard input, streamed in bounded memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from polytask.data.delimited import MAX_LINE
from polytask.data.rows import Row, read_rows
from polytask.data.sources import BadRow
from polytask.deploy.model import Model
from polytask.errors import DataError, UserError
from polytask.recipe_tasks import TaskRecipe
from polytask.tasks import Task

ROWS_PER_CHUNK = 1024
CHARACTERS_PER_CHUNK = 200_000  # a few seconds of work, after which what is answered is handed over
STANDARD_INPUT = "standard input"

OnBadRow = Callable[[BadRow], object]


def stop_at(row: BadRow) -> None:
    """Refuse a bad row."""
    raise DataError(str(row))


def predict_file(
    model: Model,
    task: str | None,
    path: Path,
    *,
    text: Sequence[str] | None = None,
    on_bad_row: OnBadRow = stop_at,
) -> Iterator[dict[str, Any]]:
    """Records for every row of a file and every task asked of it, in the file's order.

    The file has the columns that the task's training file had, or those of `text`; labels are not looked at.
    Unless a task is named, it is asked all tasks whose columns it has. `on_bad_row` is called with a row that
    cannot be read: where it does not raise, the row is left out, and the numbers of the others stay.
    """
    names = [task] if task is not None else _tasks_that_fit(model, path, text)
    rows = read_rows(path, _source(model, names[0], text), labelled=False)
    yield from _predict(model, names, _good(rows, on_bad_row))


def _source(model: Model, name: str, text: Sequence[str] | None) -> TaskRecipe:
    """How the rows of a task are read."""
    source = model.source(name)
    if text is None:
        return source
    wanted = model.task(name).texts
    if len(text) != wanted:
        kind = "one text" if wanted == 1 else "two texts"
        raise UserError(f"--text should name a column a text: {name} reads {kind}. Found {', '.join(text)}.")
    return source.model_copy(update={"text": tuple(text)})


def _tasks_that_fit(model: Model, path: Path, text: Sequence[str] | None) -> list[str]:
    """The tasks whose columns a file has; they have to read the same ones."""
    if text is not None:
        names = [name for name, task in model.tasks.items() if task.texts == len(text)]
        if not names:
            raise UserError(f"--text: no task of the model reads {len(text)} texts.")
        return names
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


def predict_lines(
    model: Model, task: str | None, stream: BinaryIO, *, on_bad_row: OnBadRow = stop_at
) -> Iterator[dict[str, Any]]:
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
    yield from _predict(model, names, _good(_line_rows(model.task(names[0]), stream), on_bad_row))


def _predict(model: Model, names: list[str], rows: Iterator[tuple[int, Row]]) -> Iterator[dict[str, Any]]:
    """All tasks of a chunk of rows, then the next chunk; what came before a bad row is answered first."""
    for chunk, problem in _chunks(rows):
        texts: Any = [row.texts if len(row.texts) == 2 else row.texts[0] for _, row in chunk]
        found = model.predict(dict.fromkeys(names, texts))
        for place, (number, row) in enumerate(chunk):
            for name in names:
                yield {"row": number, "id": row.id, "task": name, **found[name][place]}
        if problem is not None:
            raise problem


def _chunks(rows: Iterator[tuple[int, Row]]) -> Iterator[tuple[list[tuple[int, Row]], DataError | None]]:
    """Rows a few at a time, the last with what ended them too early, if anything did."""
    chunk: list[tuple[int, Row]] = []
    characters = 0
    problem = None
    try:
        for number, row in rows:
            chunk.append((number, row))
            characters += sum(map(len, row.texts))
            if len(chunk) == ROWS_PER_CHUNK or characters >= CHARACTERS_PER_CHUNK:
                yield chunk, None
                chunk, characters = [], 0
    except DataError as error:
        problem = error
    if chunk or problem is not None:
        yield chunk, problem


def _good(rows: Iterable[Row | BadRow], on_bad_row: OnBadRow) -> Iterator[tuple[int, Row]]:
    """The rows that can be read, each with its number from 0 among all."""
    for number, row in enumerate(rows):
        if isinstance(row, BadRow):
            on_bad_row(row)
        else:
            yield number, row


def _line_rows(task: Task, stream: BinaryIO) -> Iterator[Row | BadRow]:
    for number, raw in enumerate(iter(lambda: stream.readline(MAX_LINE), b"")):
        row = _line_row(task, number, raw)
        if len(raw) == MAX_LINE and not raw.endswith(b"\n"):
            while len(rest := stream.readline(MAX_LINE)) == MAX_LINE and not rest.endswith(b"\n"):
                pass
            row = f"is longer than {MAX_LINE:,} bytes"
        yield BadRow(STANDARD_INPUT, number + 1, row) if isinstance(row, str) else row


def _line_row(task: Task, number: int, raw: bytes) -> Row | str:
    """The row in a line, or what is wrong with it."""
    try:
        text = raw.decode("utf-8-sig" if number == 0 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        return "not UTF-8"
    texts = tuple(text.split("\t")) if task.texts == 2 else (text,)
    if len(texts) != task.texts or not all(part.strip() for part in texts):
        wanted = "two texts separated by a tab" if task.texts == 2 else "a text"
        return f"should be {wanted}. Found {text[:60]!r}"
    return Row(number + 1, str(number), texts, None)
