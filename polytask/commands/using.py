"""Commands that measure a trained model: evaluate."""

from pathlib import Path
from typing import Annotated

import typer

from polytask.commands.output import JsonFlag, print_json


def evaluate(
    path: Annotated[Path, typer.Argument(help="A run or model folder.", metavar="RUN|MODEL")],
    task: Annotated[str | None, typer.Option(help="Only this task.")] = None,
    data: Annotated[
        str | None,
        typer.Option(help="A labelled file for that task, or a set such as glue/mnli:dev_mismatched."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Score a model on dev rows or on a labelled file."""
    from polytask import api

    scores = api.evaluate(path, task=task, data=data)
    if as_json:
        print_json(scores)
    else:
        from polytask.console import print_scores

        print_scores(scores)
