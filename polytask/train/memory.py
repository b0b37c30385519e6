"""A run's memory: rows of the tasks that it has finished, in files that stand for the tasks' data later."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polytask.data.rows import Row
from polytask.data.tokenizer import Tokenizer
from polytask.data.tokens import TokenTable, table_from_rows
from polytask.errors import DataError
from polytask.files import sha256_of, write_bytes
from polytask.tasks import Task

FOLDER = "memory"
MANIFEST = "manifest.json"
FORMAT = 1


@dataclass(frozen=True)
class Remembered:
    """What is remembered of one task: its rows, the ones to use first in front."""

    task: Task
    rows: tuple[Row, ...]
    choose: str  # how they were chosen

    def table(self, tokenizer: Tokenizer) -> TokenTable:
        """The rows as the encoder reads them."""
        return table_from_rows(self.rows, tokenizer, self.task.kind, self.task.labels)


def write_memory(run: Path, kept: Iterable[Remembered]) -> None:
    """Put rows into a run's memory, in the place of what was there of the same tasks."""
    folder = run / FOLDER
    folder.mkdir(exist_ok=True)
    entries = _read_manifest(folder) if (folder / MANIFEST).is_file() else {}
    for item in kept:
        path = folder / f"{item.task.name}.jsonl"
        write_bytes(path, "".join(_line(row) for row in item.rows).encode("utf-8", "surrogatepass"))
        entries[item.task.name] = {
            "rows": len(item.rows),
            "choose": item.choose,
            "kind": item.task.kind,
            "labels": list(item.task.labels),
            "sha256": sha256_of(path),
        }
    document = {"format": FORMAT, "tasks": entries}
    write_bytes(folder / MANIFEST, (json.dumps(document, indent=2) + "\n").encode())


def remembered_tasks(run: Path) -> list[str]:
    """The tasks that a run's memory has rows of."""
    folder = run / FOLDER
    return list(_read_manifest(folder)) if (folder / MANIFEST).is_file() else []


def read_memory(run: Path, tasks: Mapping[str, Task], names: Sequence[str]) -> dict[str, Remembered]:
    """The remembered rows of some tasks; a file that is not as it was written is refused."""
    if not names:
        return {}
    entries = _read_manifest(run / FOLDER)
    return {name: _read_task(run / FOLDER, entries, tasks[name]) for name in names}


def _line(row: Row) -> str:
    values = {"line": row.line, "id": row.id, "texts": row.texts, "label": row.label}
    values |= {"max_tokens": row.max_tokens} if row.max_tokens is not None else {}
    return json.dumps(values, ensure_ascii=False) + "\n"


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        document = json.loads(path.read_bytes())
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {document['format']!r}, not {FORMAT}")
        entries: dict[str, Any] = dict(document["tasks"])
    except FileNotFoundError:
        raise DataError(f"{folder}: there is no memory of earlier tasks here.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: cannot be read as a memory ({error}).") from None
    return entries


def _read_task(folder: Path, entries: Mapping[str, Any], task: Task) -> Remembered:
    path, entry = folder / f"{task.name}.jsonl", entries.get(task.name)
    if entry is None:
        raise DataError(f"{folder}: there is no memory of task {task.name!r}, only of {', '.join(entries)}.")
    try:
        if sha256_of(path) != entry["sha256"]:
            raise DataError(
                f"{path}: its SHA-256 is not the one in {MANIFEST}: the memory was changed or is damaged."
            )
        if (entry["kind"], tuple(entry["labels"])) != (task.kind, task.labels):
            raise DataError(
                f"{path}: the memory and the model should know the same labels of task {task.name!r}. Found "
                f"{', '.join(entry['labels']) or entry['kind']} and {', '.join(task.labels) or task.kind}."
            )
        lines = path.read_text(encoding="utf-8", errors="surrogatepass").split("\n")[:-1]
        return Remembered(task, tuple(_read_row(line) for line in lines), str(entry["choose"]))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    except (KeyError, TypeError) as error:
        raise DataError(f"{folder / MANIFEST}: cannot be read as a memory ({error}).") from None


def _read_row(line: str) -> Row:
    values = json.loads(line)
    label = values["label"]
    return Row(
        int(values["line"]),
        str(values["id"]),
        tuple(values["texts"]),
        tuple(label) if isinstance(label, list) else label,
        values.get("max_tokens"),
    )
