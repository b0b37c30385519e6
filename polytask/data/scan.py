"""One pass over a task's file before anything is tokenised: its labels, values and bad rows, cached."""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from polytask.data.cache import cache_folder, file_hash, write_file
from polytask.data.rows import label_names, read_rows
from polytask.data.sources import BadRow, Record, file_ending, read_records
from polytask.errors import DataError
from polytask.recipe_tasks import TaskRecipe

FORMAT = 1
MAX_LABELS = 10_000
MAX_LISTED = 20


@dataclass(frozen=True)
class Scan:
    """What a pass over a file found; `labels` are those that occur, `span` the least and greatest value."""

    num_rows: int
    num_bad: int
    first_bad: tuple[BadRow, ...]
    labels: tuple[str, ...]
    span: tuple[float, float] | None


def scan_file(
    path: Path, written: TaskRecipe, *, labelled: bool, report: Callable[[str], None] | None = None
) -> Scan:
    """Read every row of a file once, or recall what an earlier pass over the same content found."""
    entry = cache_folder() / "scans" / f"{scan_key(path, written, labelled=labelled)}.json"
    scan = _recall(entry, path)
    if scan is None:
        if report is not None:
            report(f"reading {path}")
        scan = _scan(path, written, labelled)
        write_file(entry, json.dumps(asdict(scan)).encode())
    return scan


def scan_key(path: Path, written: TaskRecipe, *, labelled: bool) -> str:
    """The hash of a file's content and of everything in a recipe that decides what its rows are."""
    ending = file_ending(path)
    names = label_names(written) if labelled else None
    parts = [
        *(FORMAT, ending, path.name.lower().endswith(".gz"), file_hash(path)),
        *(written.kind, written.text, written.label if labelled else None, written.id, written.range),
        list(names.items()) if names is not None else None,
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def is_labelled(path: Path, written: TaskRecipe) -> bool:
    """Whether a file has a label column of the task, as test files need not."""
    for record in islice(read_records(path, written.text, written.label), 1000):
        if isinstance(record, Record):
            return any(column in record.values for column in written.label)
    return False


def _scan(path: Path, written: TaskRecipe, labelled: bool) -> Scan:
    num_rows = num_bad = 0
    bad: list[BadRow] = []
    labels: dict[str, None] = {}
    low, high = math.inf, -math.inf
    for row in read_rows(path, written, labelled=labelled):
        if isinstance(row, BadRow):
            num_bad += 1
            if len(bad) < MAX_LISTED:
                bad.append(row)
            continue
        num_rows += 1
        if isinstance(row.label, float):
            low, high = min(low, row.label), max(high, row.label)
        elif row.label is not None:
            labels.update(dict.fromkeys(row.label if isinstance(row.label, tuple) else (row.label,)))
            if len(labels) > MAX_LABELS:
                raise DataError(
                    f"{path}: column {written.label[0]!r} holds more than {MAX_LABELS:,} different labels; "
                    "is it the label column, and is the kind right?"
                )
    span = (low, high) if low <= high else None
    return Scan(num_rows, num_bad, tuple(bad), tuple(sorted(labels, key=_order)), span)


def _order(label: str) -> tuple[int, float, str]:
    """Numbers by size, then words by letter."""
    try:
        value = float(label)
    except ValueError:
        return 1, 0.0, label
    return (0, value, label) if math.isfinite(value) else (1, 0.0, label)


def _recall(entry: Path, path: Path) -> Scan | None:
    """An earlier scan; its bad rows bear the name that the file has now."""
    try:
        found = json.loads(entry.read_bytes())
        bad = tuple(BadRow(str(path), int(row["line"]), str(row["problem"])) for row in found["first_bad"])
        span = (float(found["span"][0]), float(found["span"][1])) if found["span"] else None
        labels = tuple(str(label) for label in found["labels"])
        return Scan(int(found["num_rows"]), int(found["num_bad"]), bad, labels, span)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None
