"""A new task for a finished run: its model goes on in a new run folder, and what it knew is looked after."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from polytask.data.known import resolve
from polytask.data.padding import Padder
from polytask.data.prepare import TaskData, check_files, load_split, prepare
from polytask.data.tokenizer import Tokenizer
from polytask.errors import DataError, UserError
from polytask.files import write_bytes
from polytask.model.folder import load_model
from polytask.model.multitask import MultitaskModel
from polytask.model.parts import extend_model
from polytask.recipe import Recipe
from polytask.tasks import Task
from polytask.train.events import Listener
from polytask.train.memory import Remembered, read_memory, remembered_tasks, write_memory
from polytask.train.merge import Mode, check_addition, merge_recipes
from polytask.train.phases import plan_phase, select_trainable
from polytask.train.probes import ask, compare, make_probes
from polytask.train.run import (
    Prepared,
    Run,
    check_folder,
    check_same_recipe,
    run_training,
    set_up_compute,
    teller,
)
from polytask.train.state import TrainingError


@dataclass(frozen=True)
class Old:
    """A finished run that a task is added to."""

    run: Path
    recipe: Recipe  # with what its model was built with
    model: MultitaskModel
    tasks: Mapping[str, Task]
    memory: Mapping[str, Remembered]


def train_addition(
    run: Path, new: Recipe, folder: Path, mode: Mode, *, resume: bool, listener: Listener
) -> Run:
    """Train the tasks of `new` into a run's model, in a run folder of its own; the old run stays as it is.

    What became of old tasks' answers stands in `scores.json` under `earlier_tasks`. In mode 'adapter' not one
    bit may change, which is checked on the finished model as it is shipped.
    """
    say = teller(listener)
    old = _load_old(run, mode)
    check_addition(old.recipe, new, mode, old.tasks, run)
    new = resolve(new, say)
    check_files(new)
    check_folder(folder, resume)
    adapters_on = old.model.adapters_on or old.recipe.adapter.kind == "none" != new.adapter.kind
    merged = merge_recipes(old.recipe, new, mode, old.tasks, adapters_on)
    if resume:
        check_same_recipe(merged, folder)
    compute = set_up_compute(merged)
    tokenizer = Tokenizer.load(run / "model")
    fresh = prepare(merged.changed(tasks=new.tasks), tokenizer, say)
    data = {**_old_data(merged, old.tasks, tokenizer), **fresh}
    probes = make_probes(old.tasks, old.memory, data, tokenizer)
    padder = Padder(tokenizer, merged.max_length)
    before = ask(old.model, probes, padder, compute)

    notes = (f"adds {', '.join(new.tasks)} to {run}, mode {mode}",)
    model = _extend(old.model, merged, fresh)
    prepared = Prepared(merged, tokenizer, data, model, compute, notes, tuple(_stages_of(old)))
    folder.mkdir(parents=True, exist_ok=True)
    if old.memory:
        write_memory(folder, old.memory.values())
    scores = run_training(prepared, folder, resume=resume, listener=listener).scores

    say("comparing the answers of earlier tasks")
    shipped, _ = load_model(folder / "model")
    changes = compare(probes, before, ask(shipped, probes, padder, compute))
    scores = {**scores, "mode": mode, "earlier_tasks": changes}
    write_bytes(folder / "scores.json", (json.dumps(scores, indent=2, allow_nan=False) + "\n").encode())
    changed = [name for name, item in changes.items() if item["changed_rows"]]
    if mode == "adapter" and changed:
        raise TrainingError(
            f"{folder}: mode 'adapter' should leave every old answer as it was, bit for bit. "
            f"Those of {', '.join(changed)} changed."
        )
    return Run(folder, scores)


def _load_old(run: Path, mode: Mode) -> Old:
    recipe = read_run_recipe(run)
    model, config = load_model(run / "model")
    tasks = {name: task for name, task in model.tasks.items() if name in recipe.tasks}
    built = recipe.changed(max_length=int(config["max_length"]), adapter=model.adapter)
    return Old(run, built, model, tasks, _memory_of(run, tasks, mode))


def _extend(model: MultitaskModel, merged: Recipe, fresh: Mapping[str, TaskData]) -> MultitaskModel:
    """The model with the new tasks, once their phases were found to fit it."""
    generator = torch.Generator().manual_seed(merged.seed)
    tasks = {name: item.task for name, item in fresh.items()}
    extended = extend_model(model, tasks, generator, merged.adapter)
    rows = {name: item.train.num_rows for name, item in fresh.items() if item.train is not None}
    for number in range(len(merged.phases)):
        select_trainable(extended, plan_phase(merged, number, rows))
    return extended


def read_run_recipe(run: Path) -> Recipe:
    """The recipe that a finished run keeps."""
    path = run / "recipe.toml"
    if not path.is_file():
        raise UserError(f"{run}: not a run folder, it holds no recipe.toml. A new task is added to a run.")
    if not (run / "model" / "config.json").is_file():
        raise UserError(f"{run}: this run has no model yet; `polytask train --resume` finishes it.")
    return Recipe.load(path)


def _memory_of(run: Path, known: Mapping[str, Task], mode: Mode) -> dict[str, Remembered]:
    """What the run remembers of its tasks; a mode that rehearses needs all of them."""
    there = remembered_tasks(run)
    absent = [name for name in known if name not in there]
    if absent and mode in ("gem", "agem", "replay"):
        raise UserError(
            f"--mode {mode} needs a memory of every task of {run}. It has none of {', '.join(absent)}: "
            "use --mode adapter, or train the run again with a memory."
        )
    return read_memory(run, known, [name for name in known if name in there])


def _old_data(merged: Recipe, known: Mapping[str, Task], tokenizer: Tokenizer) -> dict[str, TaskData]:
    """The dev rows of old tasks where they are still at hand; their training rows are not needed."""
    data = {}
    for name, task in known.items():
        written, dev, note = merged.tasks[name], None, f"{name}: has no dev rows here, so it is not scored"
        if written.dev is not None:
            try:
                dev, note = load_split(task, written, Path(written.dev), tokenizer), ""
            except DataError as error:
                note = f"{name}: is not scored, its dev rows cannot be read ({str(error).splitlines()[0]})"
        data[name] = TaskData(task, None, dev, None, (note,) if note else (), {})
    return data


def _stages_of(old: Old) -> list[dict[str, Any]]:
    """The old run's rows of the score matrix, the last one as its model was shipped."""
    try:
        scores = json.loads((old.run / "scores.json").read_bytes())
        shipped = {name: float(item["score"]) for name, item in scores["tasks"].items()}
        together = {"stages": [{"tasks": old.tasks, "scores": {}}]}
        stages = scores.get("transfer", together)["stages"]
        rows: list[dict[str, Any]] = [
            {"tasks": list(stage["tasks"]), "scores": dict(stage["scores"])} for stage in stages
        ]
        rows[-1]["scores"].update(shipped)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return rows
