"""A run: from a recipe to a folder with the model, its scores, predictions and events."""

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from polytask.data.batches import Collator
from polytask.data.known import resolve
from polytask.data.prepare import TaskData, check_files, prepare
from polytask.data.tokenizer import Tokenizer
from polytask.errors import UserError
from polytask.files import write_bytes
from polytask.model.compute import Compute, choose_compute, keep_freed_memory
from polytask.model.locate import locate_encoder
from polytask.model.multitask import MultitaskModel
from polytask.model.weights import LoadReport, load_encoder
from polytask.recipe import Recipe
from polytask.train.events import EventLog, Listener, forget_after
from polytask.train.loop import Training
from polytask.train.outputs import write_model, write_results
from polytask.train.parallel import World, joined
from polytask.train.phases import plan_phase, select_trainable
from polytask.train.state import TrainingStopped
from polytask.train.tracking.follow import check_trackers, followed


@dataclass(frozen=True)
class Run:
    """What a training left behind."""

    folder: Path
    scores: dict[str, Any]  # as in scores.json


@dataclass(frozen=True)
class Prepared:
    """Everything that training starts from."""

    recipe: Recipe  # resolved
    tokenizer: Tokenizer
    data: Mapping[str, TaskData]
    model: MultitaskModel
    compute: Compute
    notes: tuple[str, ...] = ()  # what a user should know before it begins
    stages: tuple[dict[str, Any], ...] = ()  # of an earlier run that this one goes on from


def train_recipe(recipe: Recipe, folder: Path, *, resume: bool, listener: Listener) -> Run:
    """Train a recipe into a run folder; raises `TrainingStopped`, the folder in order, when asked to stop.

    Of several processes each calls this; the leader alone writes and speaks to the listener.
    """
    compute = set_up_compute(recipe)
    with joined(compute.device) as world:
        if not world.leads:
            listener = _nobody
        with world.leader_first():
            prepared = _prepare(recipe, folder, compute, listener, resume=resume)
        return run_training(prepared, folder, resume=resume, listener=listener)


def _nobody(event: dict[str, Any]) -> None:
    """What listens to a process that does not lead."""


def _prepare(recipe: Recipe, folder: Path, compute: Compute, listener: Listener, *, resume: bool) -> Prepared:
    """Read and check everything, so that what is wrong is said before anything is written."""
    say = teller(listener)
    check_trackers(recipe.tracking)
    recipe = resolve(recipe, say)
    check_files(recipe)
    if World().leads:  # the others might find what it has written by then
        check_folder(folder, resume)
        if resume:
            check_same_recipe(recipe, folder)
    encoder_folder = locate_encoder(recipe.encoder, recipe.base)
    tokenizer = Tokenizer.load(encoder_folder)
    data = prepare(recipe, tokenizer, say)
    model, report = _build_model(recipe, encoder_folder, data)
    return Prepared(recipe, tokenizer, data, model, compute, tuple(report.sentences()))


def run_training(prepared: Prepared, folder: Path, *, resume: bool, listener: Listener) -> Run:
    """Train what is prepared, and write what a run folder holds; the recipe's trackers follow it."""
    recipe = prepared.recipe
    if not World().leads:
        return _train(prepared, folder, resume=resume, listener=listener)
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / "recipe.toml", recipe.to_toml().encode())
    settings = recipe.model_dump(mode="json", exclude_none=True)
    with followed(recipe.tracking, folder, settings, listener) as following:
        return _train(prepared, folder, resume=resume, listener=following)


def _train(prepared: Prepared, folder: Path, *, resume: bool, listener: Listener) -> Run:
    recipe, tokenizer, data = prepared.recipe, prepared.tokenizer, prepared.data
    leads = World().leads
    events = folder / "events.jsonl" if leads else Path(os.devnull)
    collator = Collator(tokenizer, recipe.max_length)
    log = EventLog(events, listener)
    training = Training(recipe, prepared.model, data, collator, prepared.compute, folder, log)
    training.state.stages = list(prepared.stages)
    try:
        if resume:
            resumed = training.resume()
            log.close()
            if leads:
                forget_after(events, training.state.total_updates if resumed else -1)
            log = training.log = EventLog(events, listener)
        for note in [*prepared.notes, *(note for item in data.values() for note in item.notes)]:
            log.write("note", message=note)
        try:
            training.train()
        except TrainingStopped:
            log.write("stopped", update=training.state.total_updates)
            if leads:
                write_model(folder, training, tokenizer)
            raise
        return Run(folder, write_results(folder, training, tokenizer))
    except OSError as error:
        raise OSError(
            f"{folder}: {error.strerror or error}; --resume goes on once that is mended."
        ) from error
    finally:
        log.close()


def teller(listener: Listener) -> Callable[[str], None]:
    """What tells a listener in words what is going on."""
    return lambda message: listener({"event": "stage", "message": message})


def set_up_compute(recipe: Recipe) -> Compute:
    """The device and precision of a recipe, with the threads that it asks for."""
    compute = choose_compute(recipe.device, recipe.precision)
    if compute.device.type == "cpu":
        keep_freed_memory()
    if recipe.threads is not None:
        torch.set_num_threads(recipe.threads)
    return compute


def _build_model(
    recipe: Recipe, encoder_folder: Path, data: Mapping[str, TaskData]
) -> tuple[MultitaskModel, LoadReport]:
    """The model to train, once the recipe was found to fit it."""
    generator = torch.Generator().manual_seed(recipe.seed)
    encoder, report = load_encoder(encoder_folder, generator)
    _check_length(recipe, encoder.config.max_length)
    model = MultitaskModel(
        encoder, {name: item.task for name, item in data.items()}, generator, recipe.adapter
    )
    rows = {name: item.train.num_rows for name, item in data.items() if item.train is not None}
    for number in range(len(recipe.phases)):  # a phase that trains nothing is refused before the first begins
        select_trainable(model, plan_phase(recipe, number, rows))
    return model, report


def check_folder(folder: Path, resume: bool) -> None:
    """A run never overwrites another."""
    place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not place.is_dir():
        raise UserError(f"--out {folder}: {place} is a file, not a folder.")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UserError(f"--out {folder}: nothing can be written in {place}.")
    started = folder.is_dir() and any(path.suffix != ".tmp" for path in folder.iterdir())
    if started and not resume:
        raise UserError(f"--out {folder}: this folder is not empty. Add --resume to go on, or name another.")


def check_same_recipe(recipe: Recipe, folder: Path) -> None:
    """A run goes on only with the recipe it began with; whoever follows it may be another."""
    path = folder / "recipe.toml"
    if not path.is_file():
        raise UserError(f"--resume: {folder} holds no run to go on with.")
    try:
        began = _flat(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise UserError(f"--resume: {path} is damaged ({error}).") from None
    now = _flat(tomllib.loads(recipe.to_toml()))
    changed = [
        f"{key} was {began.get(key, 'not set')!r} and is {now.get(key, 'not set')!r}"
        for key in dict.fromkeys([*began, *now])
        if began.get(key) != now.get(key) and key != "tracking"
    ]
    if changed:
        raise UserError(f"--resume: {folder} began with another recipe: {'; '.join(changed)}.")


def _flat(values: object, lead: str = "") -> dict[str, object]:
    """Nested tables as one: `phases.0.lr` -> value."""
    if isinstance(values, list) and any(isinstance(item, dict) for item in values):
        values = {str(number): item for number, item in enumerate(values)}
    if not isinstance(values, dict):
        return {lead.removesuffix("."): values}
    return {
        key: value for name, item in values.items() for key, value in _flat(item, f"{lead}{name}.").items()
    }


def _check_length(recipe: Recipe, longest: int) -> None:
    if recipe.max_length > longest:
        raise UserError(
            f"max_length should be at most {longest}, this encoder's longest text. Found {recipe.max_length}."
        )
