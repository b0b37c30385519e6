"""Commands around the hub: push and pull."""

from pathlib import Path
from typing import Annotated

import typer

from polytask.commands.output import JsonFlag, print_json, print_path

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
