"""Commands around named public data sets: data list, show and fetch."""

from typing import Annotated

import typer

from polytask.commands.output import JsonFlag, print_json, print_path


def data_list(as_json: JsonFlag = False) -> None:
    """The sets that a recipe can name."""
    from polytask.data.known import known_sets

    sets = [item.to_dict() for item in known_sets()]
    if as_json:
        print_json(sets)
    else:
        from polytask.console import print_sets

        print_sets(sets)


def data_show(
    name: Annotated[str, typer.Argument(help="A name from `polytask data list`.")], as_json: JsonFlag = False
) -> None:
    """Tell all about one set: columns, labels, splits, revision, licence and whom to cite."""
    from polytask.data.known import show_set

    shown = show_set(name)
    if as_json:
        print_json(shown)
    else:
        from polytask.console import print_set

        print_set(shown)


def data_fetch(
    name: Annotated[str, typer.Argument(help="A name from `polytask data list`, or hub:owner/name:config.")],
    again: Annotated[bool, typer.Option(help="Fetch a set of the hub anew, as it is now.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Download a set into the cache and check it."""
    from polytask.data.known import fetch_set

    folder = fetch_set(name, lambda message: typer.echo(message, err=True), again)
    print_path("folder", folder, as_json)
