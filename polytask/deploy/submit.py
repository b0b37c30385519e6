"""A run's answers as a benchmark wants them handed in: checked against the rows, written as one zip."""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from polytask.deploy.answered import AnsweredRun
from polytask.deploy.submit_cs224n import FILES as COURSE_FILES
from polytask.deploy.submit_cs224n import course_files, course_set
from polytask.deploy.submit_glue import FILES as GLUE_FILES
from polytask.deploy.submit_glue import glue_files, glue_set
from polytask.errors import UserError, one_of
from polytask.files import write_bytes

Format = Literal["glue", "cs224n"]
FORMATS = {
    "glue": (glue_set, glue_files, {file.set for file in GLUE_FILES}),
    "cs224n": (course_set, course_files, {file.set for file in COURSE_FILES}),
}
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # so that the same answers are the same bytes


@dataclass(frozen=True)
class Submission:
    """What was written: the rows of each file, and what should be known before it is handed in."""

    path: Path
    rows: dict[str, int]
    notes: tuple[str, ...]


def submit(run: str | Path, form: str, out: str | Path, names: Mapping[str, str] | None = None) -> Submission:
    """Write the zip that `form` (glue or cs224n) wants of a run.

    `names` says which set a task of the run is, where its files and its name do not: `{"mine": "cola"}`.
    """
    if form not in FORMATS:
        raise UserError(f"--format {one_of(FORMATS, form)}")
    find, write, sets = FORMATS[form]
    if Path(out).suffix != ".zip":
        raise UserError(f"--out should be a .zip file. Found {str(out)!r}.")
    answered = AnsweredRun(Path(run))
    given = {task: _full_name(task, name, form, sets, answered) for task, name in (names or {}).items()}
    task_of: dict[str, str] = {}
    notes: list[str] = []
    for task, written in answered.tasks.items():
        found = given.get(task) or find(Path(written.train), task)
        if found not in sets:
            notes.append(f"the task {task} belongs to no file of the submission.")
        elif found in task_of:
            raise UserError(f"{task_of[found]} and {task} are both {found}: choose one with --as.")
        else:
            task_of[found] = task
    files = list(write(answered, task_of, notes))
    if not files:
        raise UserError(f"{run}: nothing to submit.\n" + "\n".join(notes))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text, _ in files:
            packed.writestr(zipfile.ZipInfo(name, LONG_AGO), text, zipfile.ZIP_DEFLATED)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    write_bytes(Path(out), content.getvalue())
    return Submission(Path(out), {name: rows for name, _, rows in files}, tuple(notes))


def _full_name(task: str, name: str, form: str, sets: set[str], run: AnsweredRun) -> str:
    if task not in run.tasks:
        raise UserError(f"--as {task}={name}: the task {one_of(run.tasks, task)}")
    full = name if "/" in name else f"{form}/{name}"
    if full not in sets:
        raise UserError(f"--as {task}={name}: the set {one_of(sorted(sets), full)}")
    return full
