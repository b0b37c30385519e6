"""The command that keeps running: serve."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polytask.errors import UserError

if TYPE_CHECKING:
    from polytask.deploy.serve.catalogue import Catalogue


def serve(
    path: Annotated[
        Path, typer.Argument(help="A model or run folder, or a folder of models.", metavar="MODEL")
    ],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any that is free.", min=0, max=65535)] = 8000,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the bearer token; $POLYTASK_TOKEN otherwise.")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a limit, e.g. timeout=5 or queue=4096."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No log line for each request.")] = False,
) -> None:
    """Answer over HTTP, with a page to try it on."""
    from polytask.deploy.serve.listen import listen_on
    from polytask.deploy.serve.settings import read_settings, read_token

    settings = read_settings(change or (), read_token(token_file))
    with listen_on(host, port) as listener:
        try:
            from polytask.deploy.serve.run import serve as run
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("polytask"):
                raise
            raise UserError(f"serve needs {error.name}: pip install 'polytask[serve]'") from None
        run(path, settings, listener, quiet=quiet, started=_say_where)


def _say_where(url: str, catalogue: "Catalogue") -> None:
    typer.echo(f"{', '.join(catalogue.tasks)} at {url} (Ctrl-C ends it)")
