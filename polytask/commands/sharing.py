"""Commands that hand a model or its answers on: push, pull and submit."""

from pathlib import Path
from typing import Annotated

import typer

from polytask.commands.output import JsonFlag, print_json, print_path
from polytask.errors import UserError

Name = Annotated[str, typer.Argument(help="owner/name or owner/name@revision.", metavar="OWNER/NAME")]


def push(
    path: Annotated[Path, typer.Argument(help="A model or run folder.", metavar="MODEL")],
    name: Name,
    private: Annotated[bool, typer.Option(help="Where the repository is new: make it private.")] = False,
    message: Annotated[str | None, typer.Option(help="What the commit says.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Upload a model to the Hugging Face hub; HF_TOKEN holds a token that may write."""
    from polytask import api

    address = api.push(path, name, private=private, message=message)
    if as_json:
        print_json({"commit": address})
    else:
        typer.echo(address)


def pull(
    name: Name,
    out: Annotated[Path | None, typer.Option(help="A new folder; the cache by default.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Fetch a model from the Hugging Face hub and check it."""
    from polytask import api

    print_path("folder", api.pull(name, out), as_json)


def submit(
    run: Annotated[Path, typer.Argument(help="A run folder.", metavar="RUN")],
    form: Annotated[str, typer.Option("--format", help="glue or cs224n.")],
    out: Annotated[Path, typer.Option(help="The zip to write.")],
    named: Annotated[
        list[str] | None, typer.Option("--as", metavar="TASK=SET", help="Which set a task is: mine=cola.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write a benchmark's submission from a run's answers to the test rows."""
    from polytask import api

    pairs = dict(_pair(word) for word in named or ())
    done = api.submit(run, form, out, pairs)
    if as_json:
        print_json({"submission": str(done.path), "rows": done.rows, "notes": list(done.notes)})
        return
    for note in done.notes:
        typer.echo(note, err=True)
    typer.echo(f"{done.path}: {', '.join(f'{name} {rows:,}' for name, rows in done.rows.items())}")


def _pair(word: str) -> tuple[str, str]:
    task, sign, name = word.partition("=")
    if not sign:
        raise UserError(f"--as should look like mine=cola. Found {word!r}.")
    return task, name
