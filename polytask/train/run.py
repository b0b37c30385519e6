"""A run: from a recipe to a folder with the model, its scores, predictions and events."""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from polytask.data.batches import Collator
from polytask.data.known import resolve
from polytask.data.prepare import check_files, prepare
from polytask.data.tokenizer import Tokenizer
from polytask.errors import UserError
from polytask.files import write_bytes
from polytask.model.compute import choose_compute
from polytask.model.locate import locate_encoder
from polytask.model.multitask import MultitaskModel
from polytask.model.weights import load_encoder
from polytask.recipe import Recipe
from polytask.train.events import EventLog, Listener, forget_after
from polytask.train.loop import Training, TrainingStopped
from polytask.train.outputs import write_model, write_results


@dataclass(frozen=True)
class Run:
    """What a training left behind."""

    folder: Path
    scores: dict[str, Any]  # as in scores.json


def train_recipe(recipe: Recipe, folder: Path, *, resume: bool, listener: Listener) -> Run:
    """Train a recipe into a run folder; raises `TrainingStopped`, the folder in order, when asked to stop."""

    def say(message: str) -> None:
        listener({"event": "stage", "message": message})

    recipe = resolve(recipe, say)
    check_files(recipe)
    _check_folder(recipe, folder, resume)
    if recipe.threads is not None:
        torch.set_num_threads(recipe.threads)
    encoder_folder = locate_encoder(recipe.encoder, recipe.base)
    tokenizer = Tokenizer.load(encoder_folder)
    data = prepare(recipe, tokenizer, say)
    generator = torch.Generator().manual_seed(recipe.seed)
    encoder, report = load_encoder(encoder_folder, generator)
    tasks = {name: item.task for name, item in data.items()}
    _check_length(recipe, encoder.config.max_length)
    model = MultitaskModel(encoder, tasks, generator, recipe.adapter)

    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / "recipe.toml", recipe.to_toml().encode())
    collator = Collator(tokenizer, recipe.max_length)
    compute = choose_compute(recipe.device, recipe.precision)
    log = EventLog(folder / "events.jsonl", listener)
    training = Training(recipe, model, data, collator, compute, folder, log)
    try:
        resumed = resume and training.resume()
        if resumed:
            log.close()
            forget_after(folder / "events.jsonl", training.state.total_updates)
            log = training.log = EventLog(folder / "events.jsonl", listener)
        for note in [*report.sentences(), *(note for item in data.values() for note in item.notes)]:
            log.write("note", message=note)
        try:
            training.train()
        except TrainingStopped:
            log.write("stopped", update=training.state.total_updates)
            write_model(folder, training, tokenizer)
            raise
        return Run(folder, write_results(folder, training, tokenizer))
    finally:
        log.close()


def _check_folder(recipe: Recipe, folder: Path, resume: bool) -> None:
    """A run never overwrites another, and goes on only with the recipe it began with."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out {folder}: this is a file, not a folder.")
    started = folder.is_dir() and any(folder.iterdir())
    if started and not resume:
        raise UserError(f"--out {folder}: this folder is not empty. Add --resume to go on, or name another.")
    if resume and not (folder / "recipe.toml").is_file():
        raise UserError(f"--resume: {folder} holds no run to go on with.")
    if resume:
        differences = _differences((folder / "recipe.toml").read_text(encoding="utf-8"), recipe.to_toml())
        if differences:
            raise UserError(f"--resume: {folder} began with another recipe:\n{differences}")


def _differences(before: str, now: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), "then", "now", n=0, lineterm="")
    return "\n".join(line for line in lines if not line.startswith("@@"))


def _check_length(recipe: Recipe, longest: int) -> None:
    if recipe.max_length > longest:
        raise UserError(
            f"max_length should be at most {longest}, this encoder's longest text. Found {recipe.max_length}."
        )
