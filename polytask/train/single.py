"""Each task trained alone by the same recipe, which a model of all tasks has to be measured against."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from polytask.data.known import resolve
from polytask.data.prepare import check
from polytask.evaluate.metrics import LESS_IS_BETTER
from polytask.files import write_bytes
from polytask.recipe import Recipe
from polytask.recipe_phases import PhaseRecipe
from polytask.train.events import Listener
from polytask.train.phases import OWN_PARTS, plan_phase
from polytask.train.run import teller
from polytask.update_choices import CombineRecipe, LossWeightsRecipe, MemoryRecipe, SamplerRecipe

FOLDER = "single"


def train_rows(recipe: Recipe) -> dict[str, int]:
    """The number of training rows of each task of a resolved recipe."""
    return {
        name: split.num_rows
        for name, item in check(recipe).items()
        for split in item.splits
        if split.name == "train"
    }


def train_singles(
    recipe: Recipe, run: Path, train_one: Callable[[Recipe, Path, bool], object], listener: Listener
) -> None:
    """Train each task of a run alone; `train_one` gets a recipe, a folder, and whether to go on in it.

    What is finished already is left as it is.
    """
    say = teller(listener)
    recipe = resolve(recipe, say)
    rows = train_rows(recipe)
    for task in rows:
        alone, folder = single_recipe(recipe, task, rows), run / FOLDER / task
        if alone is None:
            say(f"{task} is in no phase: it is not trained alone either")
        elif is_finished(folder):
            say(f"{task} alone is finished already")
        else:
            say(f"training {task} alone")
            train_one(alone, folder, (folder / "recipe.toml").is_file())
            forget_checkpoints(folder)


def single_recipe(recipe: Recipe, task: str, train_rows: Mapping[str, int]) -> Recipe | None:
    """The recipe for one task alone: the phases that train it, with as many draws of it as they expect.

    What concerns several tasks falls away: combiner, loss weights, memory. None if no phase trains the task.
    """
    phases = []
    for number, phase in enumerate(recipe.phases):
        own = _own_patterns(phase.train, task, list(recipe.tasks))
        if task in (phase.tasks or recipe.tasks) and own:
            draws = _expected_draws(recipe, number, task, train_rows)
            phases.append(_alone(phase.model_copy(update={"train": own}), task, *draws))
    if not phases:
        return None
    return recipe.changed(tasks={task: recipe.tasks[task]}, phases=tuple(phases))


def _expected_draws(recipe: Recipe, number: int, task: str, train_rows: Mapping[str, int]) -> tuple[int, int]:
    """Draws of the task an update, at least one, and updates an epoch."""
    phase = plan_phase(recipe, number, train_rows)
    rows = phase.schedule()
    share = sum(row["share"][task] for row in rows) / len(rows)
    of_update = max(1, round(phase.sampler.draws_per_update * share))
    of_epoch = phase.sampler.draws_per_update * phase.updates_per_epoch * share
    return of_update, max(1, round(of_epoch / of_update))


def _alone(phase: PhaseRecipe, task: str, draws: int, steps_per_epoch: int) -> PhaseRecipe:
    """A phase of one task."""
    sampler = SamplerRecipe(kind="round_robin", draws=draws if draws > 1 else None)
    if phase.sampler.kind == "compromise":  # which goes on averaging the draws of an update
        sampler = phase.sampler.model_copy(update={"draws": draws})
    changes = {
        "tasks": (task,),
        "steps_per_epoch": steps_per_epoch,
        "sampler": sampler,
        "combine": CombineRecipe(),
        "loss_weights": LossWeightsRecipe(),
        "memory": MemoryRecipe(),
    }
    return phase.model_copy(update=changes)


def _own_patterns(train: tuple[str, ...], task: str, tasks: Sequence[str]) -> tuple[str, ...]:
    """What a phase trains, less the patterns that name another task's parts."""
    others = tuple(f"{part}.task-{other}." for part in OWN_PARTS for other in tasks if other != task)
    return tuple(word for word in train if not word.startswith(others))


def is_finished(run: Path) -> bool:
    """Whether a training ended in a run folder."""
    try:
        last = (run / "events.jsonl").read_bytes().splitlines()[-1]
        return bool(json.loads(last)["event"] == "done")
    except (OSError, IndexError, ValueError, KeyError, TypeError):
        return False


def forget_checkpoints(run: Path) -> None:
    """Free what a finished run of one task needs no more; its model stays."""
    shutil.rmtree(run / "checkpoints", ignore_errors=True)


def add_singles(run: Path, document: dict[str, Any]) -> dict[str, Any]:
    """`scores.json` with the scores of the tasks that were trained alone, where there are any."""
    tasks = {}
    for name in document["tasks"]:
        folder = run / FOLDER / name
        if is_finished(folder):
            found = json.loads((folder / "scores.json").read_bytes())["tasks"]
            if name in found:
                kept = {key: found[name][key] for key in ("metric", "score", "rows", "metrics")}
                tasks[name] = {**kept, "model": f"{FOLDER}/{name}/model"}
    if not tasks:
        return document
    signed = [
        -item["score"] if item["metric"] in LESS_IS_BETTER else item["score"] for item in tasks.values()
    ]
    mean = round(sum(signed) / len(signed), 6) if len(tasks) == len(document["tasks"]) else None
    with_singles = {**document, "single": {"tasks": tasks, "mean": mean}}
    text = json.dumps(with_singles, indent=2, allow_nan=False) + "\n"
    write_bytes(run / "scores.json", text.encode())
    return with_singles
