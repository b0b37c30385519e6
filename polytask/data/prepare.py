"""A recipe's files to token tables: checked as a whole first, then tokenised once and cached."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from polytask.data.cache import cache_folder
from polytask.data.notes import bad_rows_note, leak_notes, preparation_notes, repeated_id_notes
from polytask.data.preparation import is_prepared, make_plan, measure
from polytask.data.rows import label_names
from polytask.data.scan import MAX_LISTED, Scan, scan_file
from polytask.data.sources import read_records
from polytask.data.splits import SPLITS, CheckedTask, File, Part, Split, find_labels, split_files
from polytask.data.tokenizer import Tokenizer
from polytask.data.tokens import FORMAT, TokenTable, write_table
from polytask.errors import DataError, one_of
from polytask.recipe import Recipe
from polytask.recipe_tasks import BadRows, TaskRecipe
from polytask.tasks import Task

Report = Callable[[str], None] | None


@dataclass(frozen=True)
class TaskData:
    """A task with its tables; `notes` are what a user should know about the files."""

    task: Task
    train: TokenTable | None
    dev: TokenTable | None
    test: TokenTable | None
    notes: tuple[str, ...]
    splits: Mapping[str, Split]  # where the rows of the tables come from


def prepare(recipe: Recipe, tokenizer: Tokenizer, report: Report = None) -> dict[str, TaskData]:
    """Token tables of every task; raises DataError with the bad rows of all files before it tokenises any."""
    return {name: _task_data(task, tokenizer, report) for name, task in check(recipe, report).items()}


def check_files(recipe: Recipe) -> None:
    """Raise one DataError with every file that is missing or unreadable or lacks a column."""
    problems: list[str] = []
    for name, written in recipe.tasks.items():
        for file in (file for _, files in split_files(recipe, written) for file in files):
            try:
                _check_file(file)
            except DataError as error:
                problems.extend(f"tasks.{name}.{file.key}: {line}" for line in str(error).splitlines())
    if recipe.train_on_dev and all(written.dev is None for written in recipe.tasks.values()):
        problems.append("train_on_dev is true, but no task has dev rows.")
    if problems:
        raise DataError("\n".join(problems))


def _check_file(file: File) -> None:
    written = file.written
    label_names(written)
    own_id = (written.id,) if written.id != TaskRecipe.model_fields["id"].default else ()
    columns = [*written.text, *(written.label if find_labels(file).labelled else ()), *own_id]
    for _ in islice(read_records(file.path, columns), 1):
        pass


def check(recipe: Recipe, report: Report = None) -> dict[str, CheckedTask]:
    """Read all files of all tasks and raise one DataError with everything wrong; needs no tokenizer."""
    check_files(recipe)
    checked: dict[str, CheckedTask] = {}
    problems: list[str] = []
    stopping: list[Scan] = []
    for name, written in recipe.tasks.items():
        splits: list[Split] = []
        try:
            settled = _scan_splits(recipe, written, splits, report)
        except DataError as error:
            problems.append(f"tasks.{name}.{error}")
            continue
        if (written.bad_rows or recipe.bad_rows) == "stop":
            stopping.extend(part.scan for split in splits for part in split.parts)
        problems.extend(f"tasks.{name}.{line}" for line in _unfit(settled, splits))
        task = Task.from_recipe(recipe, name, *_outputs(settled, splits))
        checked[name] = CheckedTask(task, settled, tuple(splits))
    problems = [*_list_bad_rows(stopping), *problems]
    if problems:
        raise DataError("\n".join(problems))
    return {name: _planned(recipe, task) for name, task in checked.items()}


def _scan_splits(recipe: Recipe, written: TaskRecipe, splits: list[Split], report: Report) -> TaskRecipe:
    """Read all files of a task, its own training file first, and return its recipe with that one's labels."""
    own = _scan(File("train", recipe.base / written.train, written), report)
    settled = _settle(written, own)
    for name, files in split_files(recipe, settled):
        files = tuple(map(find_labels, files))
        scans = [own if file.key == "train" else _scan(file, report) for file in files]
        splits.append(Split(name, tuple(map(Part, files, scans))))
    return settled


def _scan(file: File, report: Report) -> Scan:
    try:
        return scan_file(file.path, file.written, labelled=file.labelled, report=report)
    except DataError as error:
        raise DataError(f"{file.key}: {error}") from None


def _planned(recipe: Recipe, checked: CheckedTask) -> CheckedTask:
    """The task with what its recipe does to its training rows."""
    if not is_prepared(recipe, checked.written):
        return checked
    train, *others = checked.splits
    plan = make_plan(
        recipe, checked.task, checked.written, [measure(part.file.rows()) for part in train.parts]
    )
    return replace(checked, splits=(replace(train, plan=plan), *others))


def _settle(written: TaskRecipe, train: Scan) -> TaskRecipe:
    """The task's recipe with the labels that its training file has, where the user named none."""
    if written.kind == "regression" or label_names(written) is not None or not train.labels:
        return written
    return written.model_copy(update={"labels": {label: label for label in train.labels}})


def _outputs(
    written: TaskRecipe, splits: Sequence[Split]
) -> tuple[tuple[str, ...], tuple[float, float] | None]:
    if written.kind == "regression":
        spans = [part.scan.span for part in splits[0].parts if part.scan.span is not None]
        found = (min(low for low, _ in spans), max(high for _, high in spans)) if spans else None
        return (), written.range or found
    return tuple(dict.fromkeys((label_names(written) or {}).values())), None


def _unfit(written: TaskRecipe, splits: Sequence[Split]) -> Iterator[str]:
    """What makes a file useless although its rows are sound."""
    names = dict.fromkeys((label_names(written) or {}).values())
    for number, join in enumerate(written.join):
        for label in (join.labels or {}).values():
            if names and label not in names:
                yield f"join.{number}.labels: a label {one_of(names, label)}"
    for part in (part for split in splits for part in split.parts):
        if part.scan.num_rows == 0:
            problem = part.scan.first_bad[0].problem
            yield f"{part.file.key}: {part.file.path}: has no usable row (first: {problem})."
    scans = [part.scan for part in splits[0].parts if part.scan.num_rows > 0]
    if not scans:
        return
    labels = sorted({label for scan in scans for label in scan.labels})
    spans = {end for scan in scans for end in scan.span or ()}
    key = f"train: {splits[0].parts[0].file.path}"
    if written.kind == "classification" and len(labels) < 2:
        yield f"{key}: every row has the label {labels[0]!r}; a classification needs at least two."
    elif written.kind == "multilabel" and not labels:
        yield f"{key}: no row has any label."
    elif len(spans) == 1:
        yield f"{key}: every row has the value {spans.pop():g}; there is nothing to learn."


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
    splits = {split.name: split for split in checked.splits}
    tables: dict[str, TokenTable] = {}
    notes: list[str] = []
    for name, split in splits.items():
        tables[name] = _table(task, split, tokenizer, report)
        notes.extend(bad_rows_note(task.name, split))
    notes.extend(preparation_notes(task.name, splits["train"], tables["train"]))
    for name, table in tables.items():
        notes.extend(repeated_id_notes(task.name, splits[name], table))
        if name != "train":
            notes.extend(leak_notes(f"{task.name} {name}", table, splits["train"], tables["train"]))
    train, dev, test = (tables.get(split) for split in SPLITS)
    return TaskData(task, train, dev, test, tuple(notes), splits)


def _table(task: Task, split: Split, tokenizer: Tokenizer, report: Report) -> TokenTable:
    """The split's table from the cache, built first if the cache has no sound one."""
    labels = task.labels if split.labelled else None
    parts = [FORMAT, *split.key(), tokenizer.fingerprint, labels]
    folder = cache_folder() / "tables" / hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    table = TokenTable.open(folder)
    if table is None or table.num_rows != split.num_rows:
        if report is not None:
            report(f"tokenising {task.name} {split.name}, {split.num_rows:,} rows")
        write_table(folder, split.rows(), tokenizer, task.kind if split.labelled else None, task.labels)
        table = TokenTable.open(folder)
    if table is None or table.num_rows != split.num_rows:
        raise DataError(f"{split.parts[0].file.path}: changed while it was read.")
    return table


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
    split = Split("data", (Part(File("data", path, settled), scan),))
    for note in bad_rows_note(task.name, split):
        if report is not None:
            report(note)
    return _table(task, split, tokenizer, report)
