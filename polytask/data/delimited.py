"""The rows of delimited text: quoting, physical lines, and what makes a row unreadable."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, final

MAX_FIELD = 1_000_000  # characters; a longer cell is a quote left open far more often than a sentence
MAX_LINE = 8 * MAX_FIELD


@final
class Lines:
    """The physical lines of a text file, in bounded memory, remembering whether one had to be cut."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.cut = False

    def __iter__(self) -> Iterator[str]:
        while line := self._file.readline(MAX_LINE):
            rest = line
            while len(rest) == MAX_LINE and not rest.endswith(("\n", "\r")):
                self.cut = True
                rest = self._file.readline(MAX_LINE)
            yield line


def csv_rows(reader: Any, lines: Lines, width: int) -> Iterator[tuple[int, list[str] | str]]:
    """The line on which each row starts, and its `width` cells or what is wrong with them."""
    blank: list[int] = []  # empty lines that may be rows of a file with a single column
    while True:
        line = reader.line_num + 1
        problem, fields = "", None
        try:
            fields = next(reader, None)
        except csv.Error as error:
            problem = _explain(str(error), line, reader.line_num)
        if lines.cut:
            problem, lines.cut = f"holds a line longer than {MAX_LINE:,} characters", False
        if not problem and fields is None:
            return
        if not problem and not fields:
            if width == 1:
                blank.append(line)
            continue
        yield from ((number, [""]) for number in blank)
        blank.clear()
        cells = fields or []
        problem = problem or text_problem(cells)
        if not problem and len(cells) != width:
            problem = f"has {len(cells)} fields where the header has {width}"
        yield line, problem or cells


def _explain(error: str, first: int, last: int) -> str:
    if "unexpected end of data" in error:
        problem = "a quote that is opened here is never closed"
    elif "field limit" in error:
        problem = f"a field is longer than {MAX_FIELD:,} characters; is a quote left open?"
    elif "expected after" in error:
        problem = "text follows a closing quote; inside a quoted field a quote is written twice"
    else:
        problem = f"cannot be read as CSV ({error})"
    return f"{problem} (lines {first} to {last} are lost)" if last > first else problem


def text_problem(fields: Iterable[str]) -> str:
    """What is wrong with cells that were decoded with `surrogateescape`; empty if nothing is."""
    text = "".join(fields)
    if "\0" in text:
        return "holds a NUL byte"
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            return "is not UTF-8"
    return ""


def find_delimiter(header: str, columns: Sequence[str], allowed: tuple[str, ...]) -> str:
    """The delimiter under which the header has most of the asked-for columns, then most columns."""

    def score(delimiter: str) -> tuple[int, int]:
        names = next(csv.reader([header], delimiter=delimiter), [])
        return len(set(names) & set(columns)), len(names)

    try:
        best = max(allowed, key=score)
    except csv.Error:
        return allowed[0]
    return best if best in header or len(allowed) == 1 else ","
