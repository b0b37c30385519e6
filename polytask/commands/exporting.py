"""The command that writes a model in another form: export."""

from pathlib import Path
from typing import Annotated, Any

import typer

from polytask.commands.output import JsonFlag, print_json


def export(
    path: Annotated[Path, typer.Argument(help="A model or run folder.", metavar="MODEL")],
    to: Annotated[str, typer.Option(help="onnx or huggingface.")],
    int8: Annotated[
        bool, typer.Option("--int8", help="ONNX with int8 weights: a quarter of the size.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="The new folder; beside the model by default.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="A labelled file to check with; the run's dev rows by default.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="The task of --data.")] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="How much may change: an answer in fp32, a dev score in int8.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write a model as ONNX or for transformers, once it was found to answer the same."""
    from polytask import api

    # A word that is none is refused by the API, in its own sentence.
    written = api.export(path, to, int8=int8, out=out, data=data, task=task, tolerance=tolerance)
    if as_json:
        print_json(written)
    else:
        _print(written)


def _print(written: dict[str, Any]) -> None:
    from polytask.console import print_table, stdout

    rows = [
        [
            name,
            f"{check['rows']:,}",
            f"{check['largest_difference']:.1e}",
            f"{check['same_answers']:.2%}",
            check["metric"],
            *("" if check[key] is None else f"{check[key]:.4f}" for key in ("score_before", "score_after")),
        ]
        for name, check in written["tasks"].items()
    ]
    if rows:
        print_table(["task", "rows", "largest difference", "same answers", "metric", "before", "after"], rows)
    for name, reason in written.get("left_out", {}).items():
        stdout.print(f"{name} has no classifier of its own: {reason}.", soft_wrap=True, markup=False)
    size = f"{written['bytes'] / 1e6:,.1f} MB"
    if "bytes_fp32" in written:
        size += f", its graph {written['bytes_graph'] / written['bytes_fp32']:.0%} of the fp32 one"
    stdout.print(f"checked on {written['checked_on']}", soft_wrap=True, markup=False)
    stdout.print(f"{written['folder']}  ({size})", soft_wrap=True, markup=False)
