"""The command that answers rows: predict."""

import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO, final

import typer

from polytask.commands.output import JsonFlag, fail, print_json
from polytask.errors import UserError, one_of

SHOWN_BAD_ROWS = 20
SAY_EVERY = 15.0  # seconds between lines of progress, where a file is written


def predict(
    path: Annotated[Path, typer.Argument(help="A model or run folder.", metavar="MODEL")],
    file: Annotated[
        str, typer.Argument(help="CSV, TSV, JSONL or Parquet; '-' reads texts from standard input.")
    ] = "-",
    task: Annotated[
        str | None, typer.Option(help="Only this task; all that fit the input by default.")
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(help="The column of a text, twice for pairs; as in training by default."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A file to write; standard output by default.")] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="jsonl or csv; by the ending of --out, or jsonl.")
    ] = None,
    bad_rows: Annotated[
        str, typer.Option(help="stop at a row that cannot be read, or skip it and tell.")
    ] = "stop",
    as_json: JsonFlag = False,
) -> None:
    """Predict, one line a row and task."""
    from polytask.deploy.model import load
    from polytask.deploy.predict import STANDARD_INPUT, predict_file, predict_lines
    from polytask.deploy.records import RecordWriter

    chosen = _format(form, out, as_json)
    bad = _BadRows(bad_rows)
    if file == "-" and text:
        raise UserError("--text names columns of a file; standard input has one text a line.")
    _check_out(out, file)
    model = load(path)
    if file == "-":
        found = predict_lines(model, task, sys.stdin.buffer, on_bad_row=bad)
    else:
        found = predict_file(model, task, Path(file), text=text or None, on_bad_row=bad)
    tasks = {task: model.task(task)} if task is not None else model.tasks
    first = next(found, None)  # what is wrong with the command is said before a file is written
    records = found if first is None else _with_first(first, found)
    with _opened(out) as target:
        writer = RecordWriter(target, chosen, tasks)
        _write_all(records, writer, STANDARD_INPUT if file == "-" else file, out)
    if out is not None and as_json:
        print_json({"out": str(out), "rows": writer.rows, "bad_rows": bad.count})
    elif out is not None or bad.count:
        typer.echo(f"{writer.rows:,} rows answered{bad.told()}", err=True)


def _write_all(records: Iterator[Mapping[str, Any]], writer: Any, source: str, out: Path | None) -> None:
    """Write every record; stopped from outside, end with whole rows and say where."""
    began = said = time.monotonic()
    try:
        for record in records:
            writer.write(record)
            if out is not None and (now := time.monotonic()) - said >= SAY_EVERY:
                said = now
                typer.echo(f"{writer.rows:,} rows, {writer.rows / (now - began):,.0f} a second", err=True)
        writer.end()
    except KeyboardInterrupt:
        writer.end(complete=False)
        fail(_stopped(writer, source, out), 1)
    except UserError:
        writer.end()
        if writer.rows:
            typer.echo(_stopped(writer, source, out), err=True)
        raise


def _stopped(writer: Any, source: str, out: Path | None) -> str:
    where = (
        "nothing was answered" if writer.last_row is None else f"the last answered is row {writer.last_row:,}"
    )
    kept = f"; {out} holds {writer.rows:,} whole rows" if out is not None else ""
    return f"stopped in {source}: {where} (from 0){kept}."


@final
class _BadRows:
    """What is done with a row that cannot be read."""

    def __init__(self, mode: str) -> None:
        if mode not in ("stop", "skip"):
            raise UserError(f"--bad-rows {one_of(('stop', 'skip'), mode)}")
        self.count = 0
        self._mode = mode

    def __call__(self, row: Any) -> None:
        from polytask.deploy.predict import stop_at

        if self._mode == "stop":
            stop_at(row)
        self.count += 1
        if self.count <= SHOWN_BAD_ROWS:
            typer.echo(f"skipped {row}", err=True)

    def told(self) -> str:
        """The end of the sentence that says how many rows were answered."""
        if self.count == 0:
            return "."
        rows = "1 bad row" if self.count == 1 else f"{self.count:,} bad rows"
        return f", {rows} skipped."


def _format(form: str | None, out: Path | None, as_json: bool) -> Any:
    if form is not None and form not in ("jsonl", "csv"):
        raise UserError(f"--format {one_of(('jsonl', 'csv'), form)}")
    if form is not None:
        if as_json and out is None:
            raise UserError(
                "--json prints one JSON document: leave --format away, or write the rows to --out."
            )
        return form
    if as_json and out is None:
        return "json"
    return "csv" if out is not None and out.suffix.lower() == ".csv" else "jsonl"


def _check_out(out: Path | None, file: str) -> None:
    if out is None:
        return
    if out.is_dir():
        raise UserError(f"--out {out}: is a folder, where a file was expected.")
    if not out.absolute().parent.is_dir():
        raise UserError(f"--out {out}: there is no folder {out.absolute().parent}.")
    if file != "-" and out.exists() and Path(file).exists() and out.samefile(file):
        raise UserError(f"--out {out}: is the file that is read.")


@contextmanager
def _opened(out: Path | None) -> Iterator[TextIO]:
    """Where the records go; SIGTERM stops as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if out is None:
            yield sys.stdout
        else:
            with out.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
                yield file
    finally:
        signal.signal(signal.SIGTERM, before)


def _with_first(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest
