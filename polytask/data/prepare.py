"""A recipe's files to token tables: checked as a whole first, then tokenised once and cached."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from polytask.data.cache import cache_folder
from polytask.data.rows import Row, label_names, read_rows
from polytask.data.scan import MAX_LISTED, Scan, is_labelled, scan_file, scan_key
from polytask.data.sources import read_records
from polytask.data.tokenizer import Tokenizer
from polytask.data.tokens import FORMAT, TokenTable, write_table
from polytask.errors import DataError
from polytask.recipe import Recipe
from polytask.recipe_tasks import BadRows, TaskRecipe
from polytask.tasks import Task

SPLITS = ("train", "dev", "test")

Report = Callable[[str], None] | None


@dataclass(frozen=True)
class TaskData:
    """A task with its tables; `notes` are what a user should know about the files."""

    task: Task
    train: TokenTable | None
    dev: TokenTable | None
    test: TokenTable | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Split:
    """One file of a task, as a first pass found it."""

    name: str
    path: Path
    labelled: bool
    scan: Scan


@dataclass(frozen=True)
class CheckedTask:
    """A task whose files are sound; `written` has the labels that its training file settled."""

    task: Task
    written: TaskRecipe
    splits: tuple[Split, ...]


def prepare(recipe: Recipe, tokenizer: Tokenizer, report: Report = None) -> dict[str, TaskData]:
    """Token tables of every task; raises DataError with the bad rows of all files before it tokenises any."""
    return {name: _task_data(task, tokenizer, report) for name, task in check(recipe, report).items()}


def check_files(recipe: Recipe) -> None:
    """Raise one DataError with every file that is missing or unreadable or lacks a column."""
    problems: list[str] = []
    for name, written in recipe.tasks.items():
        for split, path in split_paths(recipe, written):
            try:
                label_names(written)
                labelled = split != "test" or is_labelled(path, written)
                own_id = (written.id,) if written.id != TaskRecipe.model_fields["id"].default else ()
                columns = [*written.text, *(written.label if labelled else ()), *own_id]
                for _ in islice(read_records(path, columns), 1):
                    pass
            except DataError as error:
                problems.extend(f"tasks.{name}.{split}: {line}" for line in str(error).splitlines())
    if problems:
        raise DataError("\n".join(problems))


def split_paths(recipe: Recipe, written: TaskRecipe) -> Iterator[tuple[str, Path]]:
    """The splits that a task has and where their files are."""
    for split in SPLITS:
        named = getattr(written, split)
        if named is not None:
            yield split, recipe.base / named


def check(recipe: Recipe, report: Report = None) -> dict[str, CheckedTask]:
    """Read all files of all tasks and raise one DataError with everything wrong; needs no tokenizer."""
    check_files(recipe)
    checked: dict[str, CheckedTask] = {}
    problems: list[str] = []
    stopping: list[Scan] = []
    for name, written in recipe.tasks.items():
        splits: list[Split] = []
        settled = written
        try:
            for split, path in split_paths(recipe, written):
                labelled = split != "test" or is_labelled(path, written)
                scan = scan_file(path, settled, labelled=labelled, report=report)
                splits.append(Split(split, path, labelled, scan))
                if split == "train":
                    settled = _settle(settled, scan)
        except DataError as error:
            problems.append(f"tasks.{name}.{split}: {error}")
        if (written.bad_rows or recipe.bad_rows) == "stop":
            stopping.extend(found.scan for found in splits)
        problems.extend(_unfit(name, written, splits))
        task = Task.from_recipe(recipe, name, *_outputs(settled, splits[:1]))
        checked[name] = CheckedTask(task, settled, tuple(splits))
    problems = [*_list_bad_rows(stopping), *problems]
    if problems:
        raise DataError("\n".join(problems))
    return checked


def _settle(written: TaskRecipe, train: Scan) -> TaskRecipe:
    """The task's recipe with the labels that its training file has, where the user named none."""
    if written.kind == "regression" or label_names(written) is not None or not train.labels:
        return written
    return written.model_copy(update={"labels": {label: label for label in train.labels}})


def _outputs(
    written: TaskRecipe, train: Sequence[Split]
) -> tuple[tuple[str, ...], tuple[float, float] | None]:
    if written.kind == "regression":
        return (), written.range or (train[0].scan.span if train else None)
    return tuple(dict.fromkeys((label_names(written) or {}).values())), None


def _unfit(name: str, written: TaskRecipe, splits: Sequence[Split]) -> Iterator[str]:
    """What makes a file useless although its rows are sound."""
    for split in splits:
        scan, key = split.scan, f"tasks.{name}.{split.name}: {split.path}"
        if scan.num_rows == 0:
            yield f"{key}: has no usable row (first: {scan.first_bad[0].problem})."
        elif split.name != "train":
            continue
        elif written.kind == "classification" and len(scan.labels) < 2:
            yield f"{key}: every row has the label {scan.labels[0]!r}; a classification needs at least two."
        elif written.kind == "multilabel" and not scan.labels:
            yield f"{key}: no row has any label."
        elif scan.span is not None and scan.span[0] == scan.span[1]:
            yield f"{key}: every row has the value {scan.span[0]:g}; there is nothing to learn."


def _list_bad_rows(scans: Sequence[Scan]) -> list[str]:
    count = sum(scan.num_bad for scan in scans)
    if count == 0:
        return []
    listed = [str(row) for scan in scans for row in scan.first_bad][:MAX_LISTED]
    more = [f"... and {count - len(listed):,} more"] if count > len(listed) else []
    rows = "1 bad row" if count == 1 else f"{count:,} bad rows"
    return [f'{rows}; bad_rows = "skip" leaves such rows out:', *listed, *more]


def _task_data(checked: CheckedTask, tokenizer: Tokenizer, report: Report) -> TaskData:
    task = checked.task
    tables: dict[str, TokenTable] = {}
    notes: list[str] = []
    for split in checked.splits:
        tables[split.name] = _table(task, checked.written, split, tokenizer, report)
        if split.scan.num_bad:
            notes.append(_left_out(task.name, split))
    for name, table in tables.items():
        notes.extend(_repeated_ids(f"{task.name} {name}", table))
        if name != "train" and "train" in tables:
            notes.extend(_leaks(f"{task.name} {name}", table, tables["train"]))
    train, dev, test = (tables.get(split) for split in SPLITS)
    return TaskData(task, train, dev, test, tuple(notes))


def _left_out(task: str, split: Split) -> str:
    scan = split.scan
    total = scan.num_rows + scan.num_bad
    return f"{task} {split.name}: left out {scan.num_bad:,} of {total:,} rows (first: {scan.first_bad[0]})"


def _table(task: Task, written: TaskRecipe, split: Split, tokenizer: Tokenizer, report: Report) -> TokenTable:
    """The split's table from the cache, built first if the cache has no sound one."""
    parts = [
        *(FORMAT, scan_key(split.path, written, labelled=split.labelled)),
        *(tokenizer.fingerprint, task.labels if split.labelled else None),
    ]
    folder = cache_folder() / "tables" / hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    table = TokenTable.open(folder)
    if table is None or table.num_rows != split.scan.num_rows:
        if report is not None:
            report(f"tokenising {task.name} {split.name}, {split.scan.num_rows:,} rows")
        rows = read_rows(split.path, written, labelled=split.labelled)
        good = (row for row in rows if isinstance(row, Row))
        write_table(folder, good, tokenizer, task.kind if split.labelled else None, task.labels)
        table = TokenTable.open(folder)
    if table is None or table.num_rows != split.scan.num_rows:
        raise DataError(f"{split.path}: changed while it was read.")
    return table


def _repeated_ids(where: str, table: TokenTable) -> Iterator[str]:
    _, first, of_row, counts = np.unique(
        table.name_prints, return_index=True, return_inverse=True, return_counts=True
    )
    if len(counts) == table.num_rows:
        return
    again = np.flatnonzero(first[of_row] != np.arange(table.num_rows))
    row = int(again[0])
    lines = table.lines
    texts = table.num_rows - len(np.unique(table.fingerprints))
    yield (
        f"{where}: {len(again):,} rows repeat the id of an earlier row (first: {table.row_id(row)!r} on "
        f"lines {lines[first[of_row[row]]]} and {lines[row]}); {texts:,} rows repeat the texts of one"
    )


def _leaks(where: str, table: TokenTable, train: TokenTable) -> Iterator[str]:
    shared = np.flatnonzero(np.isin(table.fingerprints, train.fingerprints))
    if len(shared) == 0:
        return
    row = int(shared[0])
    other = int(np.flatnonzero(train.fingerprints == table.fingerprints[row])[0])
    yield (
        f"{where}: {len(shared):,} of {table.num_rows:,} rows also stand in train (first: line "
        f"{table.lines[row]} is line {train.lines[other]} there), which flatters the scores on it"
    )


def load_split(
    task: Task, written: TaskRecipe, path: Path, tokenizer: Tokenizer, report: Report = None
) -> TokenTable:
    """The table of one more labelled file of a task that a model knows, as `evaluate --data` needs it."""
    settled = written
    if task.kind != "regression" and label_names(written) is None:
        settled = written.model_copy(update={"labels": {label: label for label in task.labels}})
    strange = set((label_names(settled) or {}).values()) - set(task.labels)
    if strange:
        raise DataError(f"tasks.{task.name}.labels names {min(strange)!r}, which the model does not know.")
    scan = scan_file(path, settled, labelled=True, report=report)
    mode: BadRows = written.bad_rows or "stop"
    problems = _list_bad_rows([scan]) if mode == "stop" else []
    if not problems and scan.num_rows == 0:
        problems = [f"{path}: has no usable row (first: {scan.first_bad[0].problem})."]
    if problems:
        raise DataError("\n".join(problems))
    split = Split("data", path, True, scan)
    if scan.num_bad and report is not None:
        report(_left_out(task.name, split))
    return _table(task, settled, split, tokenizer, report)
