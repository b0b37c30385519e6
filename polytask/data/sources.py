"""Files to records: how CSV, TSV, JSONL and Parquet files are read, and what is wrong with a line of them."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from polytask.data.delimited import MAX_FIELD, MAX_LINE, Lines, csv_rows, find_delimiter, text_problem
from polytask.data.parquet import parquet_file, parquet_rows
from polytask.errors import DataError, did_you_mean

JSON_RECORDS_SEARCHED = 100  # a JSONL column that none of the first records has is taken to be missing
DELIMITERS = ("\t", ",", ";", "|")
DELIMITERS_OF_ENDING: dict[str, tuple[str, ...]] = {".csv": DELIMITERS, ".tsv": ("\t",)}
ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet")
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Record:
    """The asked-for cells of one row; `line` is where the row starts (in Parquet the row's number from 1)."""

    line: int
    values: dict[str, object]


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be used, and why."""

    file: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.problem}"


Reader = Callable[[Path, Sequence[str], Sequence[str]], Iterator[Record | BadRow]]


def read_records(
    path: Path, columns: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[Record | BadRow]:
    """Stream the rows of a file with the cells of `columns`, and of `optional` where the file has them.

    CSV cells are text; JSONL and Parquet cells keep their type, and a key that a JSON object lacks is None.
    """
    reader = READERS[file_ending(path)]
    empty = True
    try:
        for record in reader(path, columns, optional):
            empty = False
            yield record
    except gzip.BadGzipFile as error:
        raise DataError(f"{path}: not a gzip file, or a damaged one ({error}).") from None
    except (EOFError, zlib.error):
        raise DataError(f"{path}: the gzip file is cut short or damaged.") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}).") from None
    if empty:
        raise DataError(f"{path}: has no rows.")


def file_ending(path: Path) -> str:
    """The kind of file by its name, `.gz` aside; refuses a file that is missing or cannot be read."""
    name = path.name.lower()
    ending = Path(name.removesuffix(".gz")).suffix
    try:
        if path.is_dir():
            raise DataError(f"{path}: is a folder, where a file was expected.")
        if not path.exists():
            near = [item.name for item in islice(path.parent.glob("*"), 10_000)]
            raise DataError(f"{path}: no such file{did_you_mean(path.name, near, '; ')}")
        if not path.is_file():
            raise DataError(f"{path}: is not a regular file.")
        if path.stat().st_size == 0:
            raise DataError(f"{path}: is empty.")
    except (OSError, ValueError) as error:  # a name too long, or with a NUL
        raise error if isinstance(error, DataError) else DataError(f"{path}: cannot be opened.") from None
    if ending not in ENDINGS:
        raise DataError(
            f"{path}: the name of a data file should end in {', '.join(ENDINGS)} (or one of them with .gz)"
            f". Found {ending or 'no ending'!r}{did_you_mean(ending, ENDINGS, '; ')}"
        )
    return ending


def _open(path: Path) -> BinaryIO:
    """The file's bytes, unpacked if its name ends in `.gz`, checked for being another encoding altogether."""
    packed = path.name.lower().endswith(".gz")
    file = cast(BinaryIO, gzip.open(path, "rb") if packed else path.open("rb"))  # noqa: SIM115 (returned)
    try:
        start = cast(Any, file).peek(4)[:4]
        if start[:2] in UTF16_MARKS:
            raise DataError(f"{path}: is UTF-16 text; save it as UTF-8.")
        if start[:2] == b"\x1f\x8b":
            raise DataError(f"{path}: is gzip inside; its name should end in .gz, once for each packing.")
        if not start:
            raise DataError(f"{path}: is empty.")
    except BaseException:
        file.close()
        raise
    return file


def _check_columns(path: Path, found: Sequence[str], columns: Sequence[str], optional: Sequence[str]) -> None:
    problems = []
    for column in dict.fromkeys([*columns, *optional]):
        if column not in found and column in columns:
            have = ", ".join(repr(name) for name in list(dict.fromkeys(found))[:50])
            problems.append(
                f"{path}: has no column {column!r}; its columns are {have}{did_you_mean(column, found, '; ')}"
            )
        if list(found).count(column) > 1:
            problems.append(f"{path}: has {list(found).count(column)} columns named {column!r}.")
    if problems:
        raise DataError("\n".join(problems))


def _read_csv(path: Path, columns: Sequence[str], optional: Sequence[str]) -> Iterator[Record | BadRow]:
    # Bytes that are not UTF-8 become lone surrogates, which no UTF-8 text holds, so only their row is bad.
    with io.TextIOWrapper(_open(path), encoding="utf-8", errors="surrogateescape", newline="") as text:
        lines = Lines(text)
        stream = iter(lines)
        first = next(stream).removeprefix("\ufeff")
        delimiter = find_delimiter(first, columns, DELIMITERS_OF_ENDING[file_ending(path)])
        csv.field_size_limit(max(csv.field_size_limit(), MAX_FIELD))
        reader = csv.reader(chain([first], stream), delimiter=delimiter, strict=True)
        try:
            header = next(reader, [])
        except csv.Error as error:
            raise DataError(f"{path}:1: the header line cannot be read ({error}).") from None
        if problem := text_problem(header):
            raise DataError(f"{path}:1: the header line {problem}.")
        _check_columns(path, header, columns, optional)
        wanted = {name: header.index(name) for name in [*columns, *optional] if name in header}
        for line, cells in csv_rows(reader, lines, len(header)):
            if isinstance(cells, str):
                yield BadRow(str(path), line, cells)
            else:
                yield Record(line, {name: cells[place] for name, place in wanted.items()})


def _read_jsonl(path: Path, columns: Sequence[str], optional: Sequence[str]) -> Iterator[Record | BadRow]:
    rows = _json_rows(path)
    head = list(islice(rows, JSON_RECORDS_SEARCHED))
    keys = list(dict.fromkeys(key for row in head if isinstance(row, Record) for key in row.values))
    if any(isinstance(row, Record) for row in head):
        _check_columns(path, keys, columns, optional)
    wanted = [*columns, *(name for name in optional if name in keys)]
    for row in chain(head, rows):
        if isinstance(row, BadRow):
            yield row
            continue
        values = {name: row.values.get(name) for name in wanted}
        yield _bounded(path, row.line, values)


def _json_rows(path: Path) -> Iterator[Record | BadRow]:
    """Every object of a JSONL file with all its keys."""
    with _open(path) as file:
        number = 0
        while raw := file.readline(MAX_LINE):
            number += 1
            if len(raw) == MAX_LINE and not raw.endswith(b"\n"):
                while len(rest := file.readline(MAX_LINE)) == MAX_LINE and not rest.endswith(b"\n"):
                    pass
                yield BadRow(str(path), number, f"is a line longer than {MAX_LINE:,} bytes")
                continue
            if number == 1:
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            if not raw.strip():
                continue
            try:
                value = json.loads(raw.decode("utf-8"))
            except UnicodeDecodeError:
                yield BadRow(str(path), number, "is not UTF-8")
            except (ValueError, RecursionError) as error:
                yield BadRow(str(path), number, f"is not JSON ({error})")
            else:
                if isinstance(value, dict):
                    yield Record(number, value)
                else:
                    yield BadRow(str(path), number, f"should be a JSON object. Found a {_json_type(value)}")


def _json_type(value: object) -> str:
    names = {list: "list", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def _read_parquet(path: Path, columns: Sequence[str], optional: Sequence[str]) -> Iterator[Record | BadRow]:
    with parquet_file(path) as file:
        found = file.schema_arrow.names
        _check_columns(path, found, columns, optional)
        for number, cells in parquet_rows(file, [name for name in [*columns, *optional] if name in found]):
            if isinstance(cells, str):
                yield BadRow(str(path), number, cells)
            else:
                yield _bounded(path, number, cells)


def _bounded(path: Path, line: int, values: dict[str, object]) -> Record | BadRow:
    for name, value in values.items():
        if isinstance(value, str) and len(value) > MAX_FIELD:
            return BadRow(str(path), line, f"{name!r} is longer than {MAX_FIELD:,} characters")
    return Record(line, values)


READERS: dict[str, Reader] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
