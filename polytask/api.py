"""What `polytask` does when it is called from Python; the command line calls these and adds nothing."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, get_args

from polytask.deploy.export import export
from polytask.deploy.labelled import dev_tables, file_table, run_recipe
from polytask.deploy.model import Model, load
from polytask.deploy.share import pull, push
from polytask.deploy.submit import submit
from polytask.errors import UserError, one_of
from polytask.evaluate.scoring import answer_table, score_answers, scores_to_dict
from polytask.recipe import Recipe
from polytask.train.addition import read_run_recipe, train_addition
from polytask.train.launch import launch
from polytask.train.merge import SHARED_KEYS, Mode, train_changes
from polytask.train.parallel import place_in_world
from polytask.train.run import Run, train_recipe
from polytask.train.single import FOLDER, add_singles, train_singles

__all__ = [
    "Model",
    "Recipe",
    "Run",
    "add_task",
    "evaluate",
    "export",
    "load",
    "pull",
    "push",
    "remove_task",
    "submit",
    "train",
    "write_report",
]


def train(
    recipe: Recipe | str | Path,
    out: str | Path | None = None,
    *,
    resume: bool = False,
    processes: int = 1,
    single: bool = False,
    listener: Callable[[dict[str, Any]], None] | None = None,
) -> Run:
    """Train a recipe into a new run folder and write its report.

    Without `out` the folder is `runs/NAME` after the recipe's file, with a number where that is taken.
    `listener` is called with every event of `events.jsonl` as it happens. With `processes` so many of them
    share each batch; under torchrun every process calls this, and the first alone writes. With `single` each
    task is then trained alone too, into `single/TASK`, and its score stands beside.
    """
    loaded = recipe if isinstance(recipe, Recipe) else Recipe.load(recipe)
    rank, size = place_in_world()
    if size > 1 and (out is None or processes > 1 or single):
        raise UserError(
            "Under torchrun give --out, the same for all processes, and leave --processes and --single out."
        )
    folder, listen = _run_folder(loaded, out, resume), listener or (lambda event: None)
    if rank > 0:
        return train_recipe(loaded, folder, resume=resume, listener=listen)

    def train_one(one: Recipe, place: Path, again: bool) -> Run:
        with _reported(place):
            if processes > 1:
                return Run(place, launch(one, place, processes, resume=again, listener=listen))
            return train_recipe(one, place, resume=again, listener=listen)

    run = train_one(loaded, folder, resume)
    if not single and not (folder / FOLDER).is_dir():
        return run
    with _reported(folder):
        try:
            if single:
                train_singles(loaded, folder, train_one, listen)
        finally:
            scores = add_singles(folder, run.scores)
    return Run(folder, scores)


def add_task(
    run: str | Path,
    recipe: Recipe | str | Path,
    out: str | Path | None = None,
    *,
    mode: Mode = "adapter",
    resume: bool = False,
    changes: Sequence[str] = (),
    listener: Callable[[dict[str, Any]], None] | None = None,
) -> Run:
    """Add the tasks of a recipe to a finished run's model, in a new run folder; the old run stays as it is.

    `mode` says what becomes of the old tasks: `adapter` trains only what is new, and no old answer changes by
    one bit; `gem`, `agem` and `replay` train the encoder on, held to the run's memory; `naive` trains it on.
    """
    if mode not in get_args(Mode):
        raise UserError(f"mode {one_of(get_args(Mode), mode)}")
    old = read_run_recipe(Path(run))
    if isinstance(recipe, Recipe):
        new = recipe
    else:
        unsaid = old.model_dump(mode="json", include=set(SHARED_KEYS), exclude_none=True)
        new = Recipe.load(recipe, changes, unsaid)
        new = Recipe.load(recipe, [*changes, *train_changes(new, mode)], unsaid)
    folder = _run_folder(new, out, resume)
    with _reported(folder):
        return train_addition(
            Path(run), new, folder, mode, resume=resume, listener=listener or (lambda event: None)
        )


def remove_task(path: str | Path, task: str, out: str | Path) -> Path:
    """Write a model without one of its tasks into a new folder, and return the folder."""
    model, folder = load(path, precision="fp32"), Path(out)
    kept = [name for name in model.tasks if name != model.task(task).name]
    if not kept:
        raise UserError(f"{path}: {task!r} is the model's only task.")
    check_new_folder(folder)
    model.save(folder, kept)
    return folder


def check_new_folder(folder: Path) -> None:
    """A model is never written over what is there."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"--out {folder}: this folder is not empty. Name another.")


def _run_folder(recipe: Recipe, out: str | Path | None, resume: bool) -> Path:
    if out is not None:
        return Path(out)
    return Path("runs") / recipe.name if resume else free_folder(Path("runs"), recipe.name)


@contextmanager
def _reported(folder: Path) -> Iterator[None]:
    """Write a run's report once it has ended, one way or the other."""
    try:
        yield
    except BaseException:
        if (folder / "events.jsonl").exists():  # an interrupted run has a report too
            with suppress(OSError):  # on a full disk, what stopped the training is what counts
                write_report(folder)
        raise
    write_report(folder)


def write_report(run: str | Path) -> Path:
    """Write `report.html` into a run folder, from what the folder holds so far, and return its path."""
    from polytask.report import page  # not needed to train, and slow to import

    return page.write_report(Path(run))


def evaluate(path: str | Path, *, task: str | None = None, data: str | Path | None = None) -> dict[str, Any]:
    """Score a model as `scores.json` does: on the dev rows of its run, or on one task's labelled rows.

    `data` is a file, or names rows as a recipe does: `glue/mnli:dev_mismatched`, `hub:owner/name:config`.
    """
    recipe = run_recipe(Path(path)) if (Path(path) / "recipe.toml").is_file() else None
    model = load(path, precision=recipe.precision if recipe is not None else "auto")
    if data is not None:
        tables = file_table(model, str(data), task)
    elif recipe is None:
        raise UserError(f"{path} is not a run folder, so it names no dev rows: give --task and --data.")
    elif recipe.train_on_dev:
        raise UserError(f"{path} was trained on its dev rows (train_on_dev): give --task and --data.")
    elif not (tables := dev_tables(model, recipe, task)):
        raise UserError(f"{path}: no dev rows were given in its recipe: give --task and --data.")
    scores = {}
    for name, table in tables.items():
        found = answer_table(model.scorer, model.task(name), table, model.padder)
        scores[name] = score_answers(model.task(name), found, table)
    return scores_to_dict(scores)


def free_folder(parent: Path, name: str) -> Path:
    """`parent/name`, or the first `parent/name-2`, `-3`, ... that does not exist."""
    folder, number = parent / name, 1
    while folder.exists():
        number += 1
        folder = parent / f"{name}-{number}"
    return folder
