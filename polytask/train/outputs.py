"""What a run folder holds once training ended: the model, its scores and its predictions."""

import csv
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polytask.data.prepare import TaskData
from polytask.data.tokenizer import Tokenizer
from polytask.evaluate.baselines import majority, tfidf
from polytask.evaluate.calibration import Calibration, calibrate
from polytask.evaluate.metrics import LESS_IS_BETTER, decide
from polytask.evaluate.scoring import Answers, TaskScore, score_answers, scores_to_dict
from polytask.evaluate.transfer import Stage, transfer_to_dict
from polytask.files import write_bytes
from polytask.model.folder import save_model
from polytask.tasks import Task, answers
from polytask.train.card import model_card
from polytask.train.checkpoint import load_best
from polytask.train.conflict import summary
from polytask.train.loop import Training
from polytask.train.phases import is_staged


def write_results(folder: Path, training: Training, tokenizer: Tokenizer) -> dict[str, Any]:
    """Write everything that a finished run folder holds, and return what `scores.json` says.

    All processes answer; the leader alone writes, and alone knows the baselines.
    """
    say = training.log.say
    restore_best(training)
    scores: dict[str, TaskScore] = {}
    calibrations: dict[str, Calibration | None] = {}
    for split in ("dev", "test"):
        for name, item in training.data.items():
            table = getattr(item, split)
            if table is None:
                continue
            say(f"scoring {name} {split}")
            outputs = training.outputs(item.task, table)
            if split == "dev" and table.targets is not None and item.train is not None:
                calibrations[name] = calibrate(item.task, outputs, np.asarray(table.targets))
                _set_temperature(training, name, calibrations[name])
            found = answers(training.model.tasks[name], outputs)
            if training.world.leads:
                _write_predictions(folder / "predictions" / f"{name}-{split}.csv", item, split, found)
            if split == "dev" and table.targets is not None:
                scores[name] = score_answers(item.task, found, table)
    document = scores_to_dict(scores)
    if not training.world.leads:
        return document
    for name in scores:
        say(f"scoring baselines of {name}")
        if training.data[name].train is not None:
            own = _baselines(training.data[name], training.recipe.seed)
            document["tasks"][name]["baselines"] = own
        if (calibration := calibrations.get(name)) is not None:
            document["tasks"][name]["calibration"] = calibration.to_dict()
    if training.state.best is not None:
        document["best"] = {key: training.state.best[key] for key in ("phase", "epoch", "update")}
    if is_staged(training.recipe) and scores:
        document["transfer"] = _transfer(training)
    conflict = summary(training.state.conflict, training.recipe, folder, document["mean"])
    if conflict:
        document["conflict"] = conflict
    write_bytes(folder / "scores.json", _json(document))
    write_model(folder, training, tokenizer, document)
    _log_done(training)
    return document


def _transfer(training: Training) -> dict[str, Any]:
    """The scores of all tasks after each phase, and what each phase did to the tasks of the others."""
    stages = [Stage(tuple(stage["tasks"]), stage["scores"]) for stage in training.state.stages]
    errors = [name for name, item in training.data.items() if item.task.metric in LESS_IS_BETTER]
    return transfer_to_dict(stages, errors)


def _set_temperature(training: Training, name: str, calibration: Calibration | None) -> None:
    """The model keeps the temperature with the task."""
    if calibration is not None:
        task = training.model.tasks[name]
        training.model.tasks[name] = replace(task, temperature=round(calibration.temperature, 6))


def _log_done(training: Training) -> None:
    state = training.state
    own = sum(p.numel() for task in training.data for p in training.model.own_parameters(task))
    total = sum(parameter.numel() for parameter in training.model.parameters())
    rows = {
        name: {
            split: table.num_rows
            for split in ("train", "dev", "test")
            if (table := getattr(item, split)) is not None
        }
        for name, item in training.data.items()
    }
    training.log.write(
        "done",
        seconds=round(state.seconds, 3),
        tokens=state.tokens,
        tokens_per_second=round(state.tokens / max(state.seconds, 1e-9)),
        parameters=total - own,
        model_parameters=total,
        own_parameters={
            task: sum(p.numel() for p in training.model.own_parameters(task)) for task in training.data
        },
        encoder=training.recipe.encoder,
        precision="bf16" if training.compute.dtype == torch.bfloat16 else "fp32",
        rows=rows,
        drawn={name: {"rows": count} for name, count in state.drawn.items()},
        classes={name: found for name, item in training.data.items() if (found := _classes(item))},
    )


def _classes(item: TaskData) -> dict[str, int]:
    """How often each label occurs on train."""
    if item.train is None or not item.task.labels:
        return {}
    targets, num = np.asarray(item.train.targets), len(item.task.labels)
    flags = targets.ndim == 2
    counts = targets.sum(axis=0, dtype=np.int64) if flags else np.bincount(targets, minlength=num)
    return dict(zip(item.task.labels, counts.tolist(), strict=True))


def write_model(
    folder: Path, training: Training, tokenizer: Tokenizer, scores: dict[str, Any] | None = None
) -> None:
    """Write `model/` from the best tensors; an interrupted run's scores are those of its best evaluation."""
    restore_best(training)
    best = training.state.best
    if scores is None:
        scores = best["scores"] if best is not None else scores_to_dict({})
        write_bytes(folder / "scores.json", _json(scores))
    recipe = training.recipe
    sources = {
        name: task.model_dump(
            mode="json", include={"text", "label", "id", "labels", "range"}, exclude_none=True
        )
        for name, task in recipe.tasks.items()
    }
    settings = {"max_length": recipe.max_length, "encoder_name": recipe.encoder, "sources": sources}
    save_model(folder / "model", training.model, settings)
    tokenizer.save(folder / "model")
    card = model_card(recipe, training.model.tasks, scores)
    write_bytes(folder / "model" / "README.md", card.encode())


def restore_best(training: Training) -> None:
    """Go back to the weights that did best on the dev rows."""
    best = training.state.best
    if best is not None and training.recipe.keep == "best":
        training.model.load_state_dict(load_best(training.checkpoints, best))
        training.model.adapters_on = best["adapters_on"]


def _write_predictions(path: Path, data: TaskData, split: str, found: Answers) -> None:
    """One line a row: its number, id, the right answer where known, the model's answer and probabilities."""
    path.parent.mkdir(exist_ok=True)
    table, task = getattr(data, split), data.task
    decided = decide(task, found)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["row", "id", "target", "answer", *(f"p({label})" for label in task.labels)])
        for row in range(table.num_rows):
            target = "" if table.targets is None else _word(task, table.targets[row])
            shares = [f"{value:.6f}" for value in found[row]] if task.labels else []
            writer.writerow([row, table.row_id(row), target, _word(task, decided[row]), *shares])


def _word(task: Task, value: Any) -> str:
    """A class number, a set of labels or a value as a user writes it."""
    match task.kind:
        case "classification":
            return task.labels[int(value)]
        case "multilabel":
            return ",".join(label for label, given in zip(task.labels, value, strict=True) if given)
        case "regression":
            return f"{float(value):.6g}"


def _baselines(data: TaskData, seed: int) -> dict[str, float]:
    """The task's metric without an encoder: the commonest answer, and TF-IDF with a linear model."""
    assert data.train is not None
    assert data.dev is not None
    task = data.task
    targets = np.asarray(data.train.targets), np.asarray(data.dev.targets)
    train_texts, dev_texts = ([row.texts for row in data.splits[split].rows()] for split in ("train", "dev"))
    own = np.unique(data.splits["train"].origins(), return_index=True)[1]  # copies would shift the majority
    found = {
        "majority": majority(task, targets[0][own], targets[1])[task.metric],
        "tfidf": tfidf(task, train_texts, targets[0], dev_texts, targets[1], seed)[task.metric],
    }
    return {name: round(value, 6) for name, value in found.items()}


def _json(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()
