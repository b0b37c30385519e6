"""Options that every command shares, and how a command prints and ends."""

import json
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a recipe key, e.g. phases.0.lr=1e-4."),
]


def print_path(what: str, path: Path, as_json: bool) -> None:
    """Print where something was written."""
    if as_json:
        print_json({what: str(path)})
    else:
        typer.echo(path)


def print_json(document: object) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def fail(message: str, code: int) -> NoReturn:
    """End the program with a message and an exit code."""
    typer.echo(f"polytask: {message}", err=True)
    sys.exit(code)
