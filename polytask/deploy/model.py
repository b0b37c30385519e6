"""A trained model to call from Python: texts in, labels, probabilities, values or vectors out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, final, overload

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field, ValidationError

from polytask.data.padding import Padder, budget_batches
from polytask.data.tokenizer import Tokenizer
from polytask.data.tokens import table_from_texts
from polytask.deploy.onnx_scorer import RUNTIME, OnnxScorer
from polytask.deploy.share import folder_of
from polytask.errors import ModelError, UserError, one_of
from polytask.evaluate.metrics import THRESHOLD
from polytask.evaluate.scorer import Scorer
from polytask.evaluate.scoring import TOKENS_PER_BATCH, Answers, answer_tasks
from polytask.explain import explain
from polytask.model.description import read_model_config
from polytask.recipe_tasks import TaskRecipe
from polytask.tasks import Task

if TYPE_CHECKING:
    from polytask.model.compute import Precision
    from polytask.model.multitask import MultitaskModel

Texts = Sequence[str] | Sequence[tuple[str, str]]
Prediction = dict[str, Any]


@final
class Model:
    """One encoder and its tasks, ready to predict."""

    def __init__(self, scorer: Scorer, tokenizer: Tokenizer, config: Mapping[str, Any]) -> None:
        self.scorer = scorer
        self.tokenizer = tokenizer
        self.config = dict(config)
        self.padder = Padder(tokenizer, int(config["max_length"]))

    @property
    def tasks(self) -> dict[str, Task]:
        """The tasks that this model answers."""
        return self.scorer.tasks

    @property
    def network(self) -> "MultitaskModel":
        """The torch model behind the answers; an exported one has none."""
        from polytask.evaluate.network import NetworkScorer

        if not isinstance(self.scorer, NetworkScorer):
            raise ModelError(
                "this is an exported model, which has no torch network: use the one it came from."
            )
        return self.scorer.network

    @overload
    def predict(self, task: str, texts: Texts) -> list[Prediction]: ...
    @overload
    def predict(self, task: Mapping[str, Texts]) -> dict[str, list[Prediction]]: ...
    def predict(
        self, task: str | Mapping[str, Texts], texts: Texts | None = None
    ) -> list[Prediction] | dict[str, list[Prediction]]:
        """Answers for texts, in their order: `predict("sst", texts)`, or several tasks at once in a mapping.

        Tasks that are asked of the same list share its way through the encoder. A classification gives
        `label` and `probabilities`, a multilabel task `labels` and `probabilities`, a regression `value`.
        Sentence pairs are tuples of two texts.
        """
        if isinstance(task, str):
            if texts is None:
                raise UserError("predict should get a task and its texts, or a mapping from tasks to texts.")
            return self._predict_together([self.task(task)], texts)[task]
        together: dict[tuple[object, ...], list[Task]] = {}
        for name, asked in task.items():
            wanted = self.task(name)
            together.setdefault((id(asked), wanted.texts, wanted.separate), []).append(wanted)
        found: dict[str, list[Prediction]] = {}
        for tasks in together.values():
            found |= self._predict_together(tasks, task[tasks[0].name])
        return {name: found[name] for name in task}

    def save(self, folder: str | Path, tasks: Sequence[str] | None = None) -> None:
        """Write a model folder, of only some tasks if they are named."""
        names = [self.task(name).name for name in (tasks if tasks is not None else self.tasks)]
        if not names:
            raise UserError("save should keep at least one task. Found none.")
        settings = {key: self.config[key] for key in ("max_length", "encoder_name")}
        settings["sources"] = {name: self.config["sources"][name] for name in names}
        self.scorer.save(Path(folder), names, settings)
        self.tokenizer.save(Path(folder))

    def adopt(self, other: "Model", tasks: Sequence[str] | None = None) -> "Model":
        """A model that answers tasks of another too, which was trained on the same encoder."""
        names = [other.task(name).name for name in (tasks if tasks is not None else other.tasks)]
        if self.tokenizer.fingerprint != other.tokenizer.fingerprint:
            raise ModelError("both models should have the same tokenizer. Found two.")
        scorer = self.scorer.join(other.scorer, names)
        sources = {**self.config["sources"], **{name: other.config["sources"][name] for name in names}}
        return Model(scorer, self.tokenizer, {**self.config, "sources": sources})

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """The mean of each text's last token states, [N, D], as the encoder was left by training."""
        rows_of_one = [_one_text(text, "embed") for text in _listed(texts, "embed")]
        vectors = np.empty((len(texts), self.scorer.width), dtype=np.float32)
        if rows_of_one:
            table = table_from_texts(rows_of_one, self.tokenizer)
            single = Task("embed", "regression", 1, (), (0.0, 1.0), "mse")
            for rows in budget_batches(self.padder.lengths(single, table), TOKENS_PER_BATCH):
                vectors[rows] = self.scorer.embed(self.padder.pad(single, table, rows))
        return vectors

    def task(self, name: str) -> Task:
        """A task by name."""
        if name not in self.tasks:
            raise UserError(f"the task {one_of(self.tasks, name)}")
        return self.tasks[name]

    def source(self, name: str) -> TaskRecipe:
        """How the files of a task were read when the model was trained: its columns and labels."""
        task = self.task(name)
        source = {**self.config["sources"].get(name, {}), "train": "-", "kind": task.kind}
        try:
            return TaskRecipe.model_validate(source)
        except ValidationError as error:
            problems = "\n".join(explain(error, lambda place: ()))
            raise ModelError(f"the model's config.json, sources.{name}: {problems}") from None

    def _predict_together(self, tasks: Sequence[Task], texts: Texts) -> dict[str, list[Prediction]]:
        check = _one_text if tasks[0].texts == 1 else _two_texts
        rows = [check(text, tasks[0].name) for text in _listed(texts, tasks[0].name)]
        if not rows:
            return {task.name: [] for task in tasks}
        table = table_from_texts(rows, self.tokenizer)
        found = answer_tasks(self.scorer, tasks, table, self.padder)
        return {task.name: to_predictions(task, found[task.name]) for task in tasks}


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


def load(path: str | Path, *, device: str = "auto", precision: "Precision" = "auto") -> Model:
    """Load a model folder, the model of a run folder, or one on the hub: `hub:owner/name@revision`."""
    folder = folder_of(path)
    if (folder / "model" / "config.json").exists():
        folder = folder / "model"
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no model folder or run folder of this name.")
    if (folder / "recipe.toml").is_file() and not (folder / "config.json").exists():
        raise ModelError(f"{folder}: this run has no model yet; `polytask train --resume` finishes it.")
    config = read_model_config(folder)
    _check_settings(folder, config)
    scorer, longest = _load_scorer(folder, config, device, precision)
    if config["max_length"] > longest:
        raise ModelError(
            f"{folder / 'config.json'}: max_length should be at most {longest}, this encoder's longest text. "
            f"Found {config['max_length']}."
        )
    return Model(scorer, Tokenizer.load(folder), config)


def _load_scorer(
    folder: Path, config: Mapping[str, Any], device: str, precision: "Precision"
) -> tuple[Scorer, int]:
    """What computes the answers, and the longest text it takes; an exported model does without torch."""
    if config.get("runtime") == RUNTIME:
        return OnnxScorer.load(folder, config, device), config.get("longest", config["max_length"])
    from polytask.evaluate.network import NetworkScorer
    from polytask.model.compute import choose_compute
    from polytask.model.folder import load_model

    network, _ = load_model(folder)
    return NetworkScorer(network, choose_compute(device, precision)), network.encoder.config.max_length


class _Settings(BaseModel):
    """What prediction needs of a `config.json`, besides the encoder."""

    max_length: int = Field(ge=4)
    longest: int = 4  # an exported model's longest text, which its graph does not say
    encoder_name: str
    sources: dict[str, dict[str, Any]]
    tasks: dict[str, Task]


def _check_settings(folder: Path, config: Mapping[str, Any]) -> None:
    try:
        _Settings.model_validate(config)
    except ValidationError as error:
        problems = explain(error, lambda place: ())
        raise ModelError("\n".join(f"{folder / 'config.json'}: {problem}" for problem in problems)) from None


def _listed(texts: Sequence[object], where: str) -> Sequence[object]:
    """A lone string would be read letter by letter."""
    if isinstance(texts, str):
        raise UserError(f"{where}: the texts should be a list. Found the string {texts[:60]!r}.")
    return texts


def _one_text(text: object, where: str) -> tuple[str]:
    if not isinstance(text, str):
        raise UserError(f"{where}: each text should be a string. Found {type(text).__name__}.")
    return (text,)


def _two_texts(texts: object, where: str) -> tuple[str, str]:
    pair = tuple(texts) if isinstance(texts, (tuple, list)) else ()
    if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
        raise UserError(f"{where}: each row should be a pair of texts. Found {str(texts)[:60]!r}.")
    return cast(tuple[str, str], pair)
