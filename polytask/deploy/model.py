"""A trained model to call from Python: texts in, labels, probabilities, values or vectors out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast, final, overload

import numpy as np
import numpy.typing as npt
import torch

from polytask.data.batches import Collator, budget_batches
from polytask.data.tokenizer import Tokenizer
from polytask.data.tokens import table_from_texts
from polytask.errors import ModelError, UserError, one_of
from polytask.evaluate.metrics import THRESHOLD
from polytask.evaluate.scoring import TOKENS_PER_BATCH, Answers, answer_table
from polytask.model.compute import Compute, Precision, choose_compute
from polytask.model.folder import load_model
from polytask.model.multitask import MultitaskModel
from polytask.recipe import TaskRecipe
from polytask.tasks import Task

Texts = Sequence[str] | Sequence[tuple[str, str]]
Prediction = dict[str, Any]


@final
class Model:
    """One encoder and its tasks, ready to predict."""

    def __init__(
        self, model: MultitaskModel, tokenizer: Tokenizer, config: Mapping[str, Any], compute: Compute
    ) -> None:
        self.network = model.to(compute.device).eval()
        self.tokenizer = tokenizer
        self.config = dict(config)
        self.compute = compute
        self.collator = Collator(tokenizer, int(config["max_length"]))

    @property
    def tasks(self) -> dict[str, Task]:
        """The tasks that this model answers."""
        return self.network.tasks

    @overload
    def predict(self, task: str, texts: Texts) -> list[Prediction]: ...
    @overload
    def predict(self, task: Mapping[str, Texts]) -> dict[str, list[Prediction]]: ...
    def predict(
        self, task: str | Mapping[str, Texts], texts: Texts | None = None
    ) -> list[Prediction] | dict[str, list[Prediction]]:
        """Answers for texts, in their order: `predict("sst", texts)`, or several tasks at once in a mapping.

        A classification gives `label` and `probabilities`, a multilabel task `labels` and `probabilities`, a
        regression `value`. Sentence pairs are tuples of two texts.
        """
        if isinstance(task, str):
            if texts is None:
                raise UserError("predict should get a task and its texts, or a mapping from tasks to texts.")
            return self._predict_task(self.task(task), texts)
        return {name: self._predict_task(self.task(name), rows) for name, rows in task.items()}

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """The mean of each text's last token states, [N, D], as the encoder was left by training."""
        table = table_from_texts([_one_text(text, "embed") for text in texts], self.tokenizer)
        single = Task("embed", "regression", 1, (), (0.0, 1.0), "mse")
        vectors = np.empty((len(texts), self.network.encoder.config.width), dtype=np.float32)
        with torch.inference_mode(), self.compute.autocast():
            for rows in budget_batches(self.collator.lengths(single, table), TOKENS_PER_BATCH):
                batch = self.collator.batch(single, table, rows).to(self.compute.device)
                vectors[rows] = self.network.embed(batch).float().cpu().numpy()
        return vectors

    def task(self, name: str) -> Task:
        """A task by name."""
        if name not in self.tasks:
            raise UserError(f"the task {one_of(self.tasks, name)}")
        return self.tasks[name]

    def source(self, name: str) -> TaskRecipe:
        """How the files of a task were read when the model was trained: its columns and labels."""
        task = self.task(name)
        return TaskRecipe.model_validate({**self.config["sources"][name], "train": "-", "kind": task.kind})

    def _predict_task(self, task: Task, texts: Texts) -> list[Prediction]:
        rows = [_one_text(t, task.name) if task.texts == 1 else _two_texts(t, task.name) for t in texts]
        if not rows:
            return []
        table = table_from_texts(rows, self.tokenizer)
        found = answer_table(self.network, task, table, self.collator, self.compute)
        return to_predictions(task, found)


def to_predictions(task: Task, found: Answers) -> list[Prediction]:
    """Answers as plain values."""
    if task.kind == "regression":
        return [{"value": float(value)} for value in found[:, 0]]
    predictions: list[Prediction] = []
    for row in found:
        named = {label: float(value) for label, value in zip(task.labels, row, strict=True)}
        if task.kind == "multilabel":
            given = [label for label, value in named.items() if value >= THRESHOLD]
            predictions.append({"labels": given, "probabilities": named})
        else:
            predictions.append({"label": task.labels[int(row.argmax())], "probabilities": named})
    return predictions


def load(path: str | Path, *, device: str = "auto", precision: Precision = "auto") -> Model:
    """Load a model folder, or the model of a run folder."""
    folder = Path(path)
    if (folder / "model" / "config.json").exists():
        folder = folder / "model"
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no model folder or run folder of this name.")
    model, config = load_model(folder)
    return Model(model, Tokenizer.load(folder), config, choose_compute(device, precision))


def _one_text(text: object, where: str) -> tuple[str]:
    if not isinstance(text, str):
        raise UserError(f"{where}: each text should be a string. Found {type(text).__name__}.")
    return (text,)


def _two_texts(texts: object, where: str) -> tuple[str, str]:
    pair = tuple(texts) if isinstance(texts, (tuple, list)) else ()
    if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
        raise UserError(f"{where}: each row should be a pair of texts. Found {str(texts)[:60]!r}.")
    return cast(tuple[str, str], pair)
