"""Commands that change which tasks a model has: add-task, remove-task and adopt."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from polytask.commands.output import Changes, JsonFlag, fail, print_json, print_path

if TYPE_CHECKING:
    from polytask.train.merge import Mode


def add_task(
    run: Annotated[Path, typer.Argument(help="A finished run folder.", metavar="RUN")],
    recipe: Annotated[Path, typer.Argument(help="A recipe of the new tasks alone.", metavar="RECIPE")],
    mode: Annotated[
        str, typer.Option(help="What becomes of the old tasks: adapter, gem, agem, replay or naive.")
    ] = "adapter",
    out: Annotated[Path | None, typer.Option(help="The new run folder; runs/NAME by default.")] = None,
    change: Changes = None,
    resume: Annotated[bool, typer.Option(help="Go on with an interrupted addition.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Add tasks to a finished run's model, in a new run folder."""
    from polytask.console import TrainingProgress, print_changes, print_scores, stderr

    with TrainingProgress() as progress:
        from polytask import api

        chosen = cast("Mode", mode)  # the API says what it may be
        try:
            added = api.add_task(
                run, recipe, out, mode=chosen, resume=resume, changes=change or (), listener=progress
            )
        except KeyboardInterrupt as stop:
            fail(f"{stop}" or "Stopped.", 1)
    if as_json:
        print_json(added.scores)
        return
    print_scores(added.scores)
    print_changes(added.scores["earlier_tasks"])
    stderr.print(f"model   {added.folder / 'model'}\nreport  {added.folder / 'report.html'}")


def remove_task(
    path: Annotated[Path, typer.Argument(help="A model or run folder.", metavar="MODEL")],
    task: Annotated[str, typer.Argument(help="The task to leave out.", metavar="TASK")],
    out: Annotated[Path, typer.Option(help="The new model folder.")],
    as_json: JsonFlag = False,
) -> None:
    """Write a model without one of its tasks."""
    from polytask import api

    print_path("model", api.remove_task(path, task, out), as_json)


def adopt(
    path: Annotated[Path, typer.Argument(help="A model or run folder.", metavar="MODEL")],
    other: Annotated[Path, typer.Argument(help="A model on the same encoder.", metavar="OTHER")],
    out: Annotated[Path, typer.Option(help="The new model folder.")],
    task: Annotated[list[str] | None, typer.Option(help="Only this task of OTHER; may be repeated.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write a model that has another's tasks too: their adapters and heads move over."""
    from polytask import api

    joined = api.load(path, precision="fp32").adopt(api.load(other, precision="fp32"), task)
    api.check_new_folder(out)
    joined.save(out)
    print_path("model", out, as_json)
