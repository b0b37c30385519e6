"""The labelled rows that a trained model can be scored on: the dev rows of its run, or a file."""

from pathlib import Path

from polytask.data.places import Places, locate
from polytask.data.prepare import load_split
from polytask.data.tokens import TokenTable
from polytask.deploy.model import Model
from polytask.errors import UserError
from polytask.recipe import Recipe


def run_recipe(path: Path) -> Recipe | None:
    """The recipe of a run folder, or of the run that a model folder lies in."""
    for folder in (path, path.absolute().parent):
        written = folder / "recipe.toml"
        if written.is_file() and (folder == path or path.name == "model"):
            return Recipe.load(written)
    return None


def dev_tables(model: Model, recipe: Recipe, task: str | None = None) -> dict[str, TokenTable]:
    """The dev rows of a run, read as its training read them; empty where its recipe names none."""
    tables = {}
    for name in [task] if task is not None else list(model.tasks):
        model.task(name)
        written = recipe.tasks.get(name)
        if written is not None and written.dev is not None:
            source = model.source(name).model_copy(update={"bad_rows": written.bad_rows or recipe.bad_rows})
            tables[name] = load_split(model.task(name), source, Path(written.dev), model.tokenizer)
    return tables


def file_table(model: Model, data: str, task: str | None) -> dict[str, TokenTable]:
    """One task's labelled rows, named as in a recipe; the task may go unnamed where there is one only."""
    if task is None:
        if len(model.tasks) > 1:
            raise UserError(f"--data belongs to one task: name it with --task ({', '.join(model.tasks)}).")
        task = next(iter(model.tasks))
    file = locate(data, "dev", Places.of(Path.cwd()))
    return {task: load_split(model.task(task), model.source(task), file, model.tokenizer)}
