"""The page of a schedule: what a recipe will draw, before anything is trained."""

from pathlib import Path
from typing import Any

from polytask.errors import UserError
from polytask.files import write_bytes
from polytask.report import tables
from polytask.report.facts import Phase
from polytask.report.page import Page
from polytask.report.read import Run
from polytask.report.words import decimal, whole


def write_plan(described: dict[str, Any], path: Path) -> None:
    """Write what `describe_schedule` found as one HTML file that fetches nothing."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"--plot should name an .html file. Found {path}.")
    if not path.absolute().parent.is_dir():
        raise UserError(f"--plot {path}: there is no folder {path.absolute().parent}.")
    run = Run(described["recipe"], phases=[Phase.model_validate(phase) for phase in described["phases"]])
    page = Page(run)
    heads = ["Task", "Train rows", "Times each is seen"]
    seen = [
        [task, whole(rows), decimal(described["passes"][task], 2)] for task, rows in described["rows"].items()
    ]
    card = f'<div class="card">{tables.table(heads, seen)}</div>'
    sections = f"{page.course()}{page.document.heading('Rows')}{card}"
    write_bytes(path, page.document.html("The schedule, as expected before training", "", sections).encode())
