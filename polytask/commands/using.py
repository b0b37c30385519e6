"""Commands that use a trained model: evaluate and predict."""

import json
import sys
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


def predict(
    path: Annotated[Path, typer.Argument(help="A model or run folder.", metavar="MODEL")],
    file: Annotated[
        str, typer.Argument(help="CSV, TSV, JSONL or Parquet; '-' reads texts from standard input.")
    ] = "-",
    task: Annotated[
        str | None, typer.Option(help="Only this task; all that fit the input by default.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Predict, one JSON line a row and task."""
    from polytask.deploy.model import load
    from polytask.deploy.predict import predict_file, predict_lines

    model = load(path)
    found = (
        predict_lines(model, task, sys.stdin.buffer) if file == "-" else predict_file(model, task, Path(file))
    )
    if as_json:
        print_json(list(found))
    for record in found:
        sys.stdout.write(json.dumps(record, ensure_ascii=False) + "\n")
