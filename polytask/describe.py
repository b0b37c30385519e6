"""What `polytask info` tells of a recipe or of a model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from polytask.data.known import resolve
from polytask.data.notes import preparation_notes
from polytask.data.prepare import check
from polytask.data.splits import CheckedTask
from polytask.deploy.model import load
from polytask.deploy.share import folder_of
from polytask.errors import UserError
from polytask.model.architectures import new_encoder
from polytask.model.config import EncoderConfig
from polytask.model.locate import locate_encoder
from polytask.model.multitask import MultitaskModel
from polytask.model.sizes import describe_sizes
from polytask.model.weights import read_config
from polytask.recipe import Recipe
from polytask.tasks import Task
from polytask.train.phases import plan_phase
from polytask.train.single import train_rows


def describe(path: str | Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """Tasks, parameters and, for a recipe, rows and schedule."""
    path = folder_of(path)
    if path.is_dir():
        if changes:
            raise UserError("--set changes a recipe. Found a folder.")
        return _describe_model(path)
    return _describe_recipe(resolve(Recipe.load(path, changes)))


def describe_schedule(path: str | Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """What each phase of a recipe is expected to draw, epoch by epoch; a phase's patience may end it sooner.

    A pass over a task is each of its training rows once.
    """
    if folder_of(path).is_dir():
        raise UserError(f"--schedule belongs to a recipe. Found the folder {path}.")
    recipe = resolve(Recipe.load(path, changes))
    sizes = train_rows(recipe)
    phases = []
    passes = dict.fromkeys(recipe.tasks, 0.0)
    for number, written in enumerate(recipe.phases):
        phase = plan_phase(recipe, number, sizes)
        rows = phase.schedule()
        own = {task: sum(row["passes"][task] for row in rows) for task in phase.tasks}
        passes = {task: count + own.get(task, 0.0) for task, count in passes.items()}
        phases.append(
            {
                "phase": number,
                "train": ", ".join(written.train),
                "tasks": list(phase.tasks),
                "sampler": written.sampler.kind,
                "epochs": written.epochs,
                "updates": phase.updates,
                "draws": phase.updates * phase.sampler.draws_per_update,
                "schedule": rows,
                "passes": {task: round(count, 6) for task, count in own.items()},
            }
        )
    return {
        "recipe": recipe.name,
        "rows": sizes,
        "phases": phases,
        "passes": {task: round(count, 6) for task, count in passes.items()},
    }


def _describe_model(path: Path) -> dict[str, Any]:
    loaded = load(path, device="cpu")
    model, config = loaded.network, loaded.config
    tasks = {name: _describe_task(task) for name, task in model.tasks.items()}
    return {
        "model": str(path),
        "encoder": _describe_encoder(config["encoder_name"], model.encoder.config),
        "max_length": config["max_length"],
        "tasks": tasks,
        "adapter": model.adapter.kind,
        "sizes": describe_sizes(model),
    }


def _describe_recipe(recipe: Recipe) -> dict[str, Any]:
    checked = check(recipe)
    config = read_config(locate_encoder(recipe.encoder, recipe.base))
    with torch.device("meta"):
        tasks_of_model = {name: item.task for name, item in checked.items()}
        model = MultitaskModel(new_encoder(config), tasks_of_model, torch.Generator(), recipe.adapter)
    rows = {name: {split.name: split.num_rows for split in item.splits} for name, item in checked.items()}
    sizes = {name: count["train"] for name, count in rows.items()}
    tasks = {
        name: {**_describe_task(item.task), "rows": rows[name], **_describe_preparation(item)}
        for name, item in checked.items()
    }
    phases = []
    for number, written in enumerate(recipe.phases):
        phase = plan_phase(recipe, number, sizes)
        phases.append(
            {
                "train": ", ".join(written.train),
                "tasks": list(phase.tasks),
                "epochs": written.epochs,
                "updates": phase.updates,
                "sampler": written.sampler.kind,
                "combine": written.combine.kind,
                "lr": written.lr,
                "schedule": phase.schedule(),
            }
        )
    return {
        "recipe": recipe.name,
        "encoder": _describe_encoder(recipe.encoder, config),
        "max_length": recipe.max_length,
        "tasks": tasks,
        "phases": phases,
        "adapter": recipe.adapter.kind,
        "sizes": describe_sizes(model),
    }


def _describe_preparation(checked: CheckedTask) -> dict[str, Any]:
    """What a task does to its training rows; nothing where they are those of its own file."""
    train = checked.splits[0]
    if train.plan is None:
        return {}
    files = {str(part.file.path): part.scan.num_rows for part in train.parts}
    notes = list(preparation_notes(checked.task.name, train))
    return {"preparation": {"files": files, **train.plan.describe(), "notes": notes}}


def _describe_encoder(name: str, config: EncoderConfig) -> dict[str, Any]:
    return {
        "name": name,
        "architecture": config.architecture,
        "layers": config.num_layers,
        "width": config.width,
    }


def _describe_task(task: Task) -> dict[str, Any]:
    described = {
        "kind": task.kind,
        "texts": task.texts,
        "labels": list(task.labels),
        "range": list(task.range) if task.range else None,
        "metric": task.metric,
        "head": task.head.kind,
        "pooling": task.pooling,
    }
    return {key: value for key, value in described.items() if value not in (None, [])}
