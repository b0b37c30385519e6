"""The command that compares recipes: compare."""

from pathlib import Path
from typing import Annotated, Any

import typer

from polytask.commands.output import Changes, JsonFlag, fail, print_json


def compare(
    recipes: Annotated[list[Path], typer.Argument(help="TOML recipes.", metavar="RECIPE...")],
    out: Annotated[Path, typer.Option(help="The folder of the runs and the comparison.")],
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Train with seeds 1 to this.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, max=1024, help="Runs at a time, each a process.")] = 1,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Begin no run that would end after so many minutes.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="The recipe to test against, by its file's name; the first by default.")
    ] = None,
    change: Changes = None,
    any_code: Annotated[
        bool, typer.Option("--any-code", help="Take finished runs of other versions of polytask as they are.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Train recipes with several seeds and compare them; what is finished is not done again."""
    from polytask.experiments.compare import Settings, run_comparison
    from polytask.recipe import Recipe

    loaded = [Recipe.load(recipe, change or ()) for recipe in recipes]
    settings = Settings(seeds, jobs, minutes, baseline, any_code)
    document = run_comparison(loaded, out, settings, _tell)
    if as_json:
        print_json(document)
    else:
        _print(document, out)
    _end(document)


def _tell(event: dict[str, Any]) -> None:
    """A line for what happened to a run, and how long the others take."""
    from polytask.report.words import decimal, duration

    known = event.get("seconds_left") is not None
    counts = f"{event['finished']}/{event['total']} done" if "total" in event else ""
    counts += f", about {duration(event['seconds_left'])} left" if known else ""
    match event["event"]:
        case "begin":
            line = f"{event['finished']} of {event['total']} runs finished already"
        case "start":
            line = f"{event['run']}: {'goes on' if event['resumed'] else 'begins'}"
        case "finish":
            line = (
                f"{event['run']}: mean {decimal(event['mean'], 4)} in {duration(event['seconds'])}; {counts}"
            )
        case "fail":
            line = f"{event['run']} failed: {event['message']}"
        case "progress":
            line = f"{', '.join(event['runs'])} at work; {counts}"
        case "stop":
            line = (
                f"waiting until {', '.join(event['runs'])} have stopped in order"
                if event["runs"]
                else "stopping"
            )
        case _:
            line = str(event.get("message", ""))
    typer.echo(line, err=True)


def _print(document: dict[str, Any], out: Path) -> None:
    from rich.markup import escape

    from polytask.console import print_table, stderr, stdout
    from polytask.experiments.tables import TEST_HEADS, notes, score_heads, score_rows, tested_rows

    if document["recipes"]:
        rows = [[escape(cell) for cell in row] for row in score_rows(document)]
        print_table(score_heads(document), rows)
    for line in notes(document):
        stdout.print(line, soft_wrap=True, markup=False)
    if document["tests"]:
        stdout.print(f"\nagainst {document['baseline']}", markup=False)
        print_table(TEST_HEADS, tested_rows(document))
    stderr.print(f"page    {out / 'comparison.html'}", soft_wrap=True, markup=False)


def _end(document: dict[str, Any]) -> None:
    """Exit with 1 where something failed or was stopped; runs that a budget left out are no failure."""
    if document["stopped"]:
        fail("Stopped. The same command goes on.", 1)
    if document["failed"]:
        fail("\n".join(f"{run} failed: {said}" for run, said in document["failed"].items()), 1)
