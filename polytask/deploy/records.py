"""Predictions as lines of JSON or CSV: whole rows only, so that a stopped file can be read."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TextIO, final

from polytask.tasks import Task

Format = Literal["jsonl", "csv", "json"]
FORMATS: tuple[Format, ...] = ("jsonl", "csv", "json")


@final
class RecordWriter:
    """Writes the records of a row together, once its last one is there.

    `jsonl` has a record a line, `json` one list of them, and `csv` a line a record: row, id, task, answer and
    a column a label with its probability, empty where the task has no such label.
    """

    def __init__(self, file: TextIO, form: Format, tasks: Mapping[str, Task]) -> None:
        self.rows = 0  # written so far
        self.last_row: int | None = None
        self._file = file
        self._form = form
        self._row: list[Mapping[str, Any]] = []
        self._labels = list(dict.fromkeys(label for task in tasks.values() for label in task.labels))
        if form == "csv":
            file.write(_csv_line(["row", "id", "task", "answer", *(f"p({label})" for label in self._labels)]))
        elif form == "json":
            file.write("[")

    def write(self, record: Mapping[str, Any]) -> None:
        """Take one more record."""
        if self._row and self._row[0]["row"] != record["row"]:
            self._write_row()
        self._row.append(record)

    def end(self, *, complete: bool = True) -> None:
        """Write what is left; of an interrupted row, of which records are missing, nothing."""
        if complete and self._row:
            self._write_row()
        if self._form == "json":
            self._file.write("\n]\n" if self.rows else "]\n")
        self._file.flush()

    def _write_row(self) -> None:
        match self._form:
            case "csv":
                text = "".join(_csv_line(self._cells(record)) for record in self._row)
            case "json":
                lead = ",\n" if self.rows else "\n"
                text = lead + ",\n".join(f"  {_json(record)}" for record in self._row)
            case "jsonl":
                text = "".join(f"{_json(record)}\n" for record in self._row)
        self._file.write(text)
        self.rows += 1
        self.last_row = self._row[0]["row"]
        self._row = []

    def _cells(self, record: Mapping[str, Any]) -> Iterable[object]:
        shares = record.get("probabilities", {})
        if "value" in record:
            answer = f"{record['value']:.6g}"
        else:
            answer = record["label"] if "label" in record else ",".join(record["labels"])
        given = (f"{shares[label]:.6f}" if label in shares else "" for label in self._labels)
        return [record["row"], record["id"], record["task"], answer, *given]


def _json(record: Mapping[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False)


def _csv_line(cells: Iterable[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(list(cells))
    return line.getvalue()
