"""What a task is: its inputs, kind, labels, loss and metric."""

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from polytask.choices import HeadRecipe
from polytask.errors import RecipeError
from polytask.recipe import Recipe
from polytask.recipe_tasks import DEFAULT_METRIC, Kind, Metric, Pairs, Pooling

if TYPE_CHECKING:
    from torch import Tensor

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Task:
    """One sentence-level task, as training, prediction and a model folder know it."""

    name: str
    kind: Kind
    texts: int  # 1: single sentences, 2: pairs
    labels: tuple[str, ...]  # names of the outputs in order; empty for regression
    range: tuple[float, float] | None  # of a regression's values
    metric: Metric
    pairs: Pairs = "joined"
    head: HeadRecipe = field(default_factory=HeadRecipe)
    pooling: Pooling = "mean"
    dropout: float = 0.1
    in_mean: bool = True  # whether its score counts in the mean over tasks
    temperature: float = 1.0  # outputs are divided by it, so that a probability is how often it is right

    @property
    def num_outputs(self) -> int:
        return len(self.labels) if self.kind != "regression" else 1

    @property
    def output_width(self) -> int:
        """What a head gives for a row: a cosine head one number, also where there are two labels."""
        return 1 if self.head.kind == "cosine" else self.num_outputs

    @property
    def separate(self) -> bool:
        """Whether a row is two sequences of the encoder."""
        return self.texts == 2 and self.pairs == "separate"

    @classmethod
    def from_recipe(
        cls, recipe: Recipe, name: str, labels: tuple[str, ...], range_: tuple[float, float] | None
    ) -> "Task":
        """The task `name` of a recipe, with the labels or the range found in its data."""
        written = recipe.tasks[name]
        task = cls(
            name=name,
            kind=written.kind,
            texts=len(written.text),
            labels=labels,
            range=range_,
            metric=written.metric or DEFAULT_METRIC[written.kind],
            pairs=written.pairs or recipe.pairs,
            head=written.head,
            pooling=written.pooling or "mean",
            dropout=written.dropout,
            in_mean=written.in_mean,
        )
        if task.head.kind == "cosine" and (not task.separate or task.kind == "multilabel" or len(labels) > 2):
            raise RecipeError(
                f"tasks.{name}.head is 'cosine', which compares two sentences and gives one number: "
                "it needs two text columns, pairs = 'separate', and two classes or a regression."
            )
        return task

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a model's `config.json`."""
        return {**asdict(self), "head": self.head.model_dump(exclude_none=True)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Task":
        """The inverse of `to_dict`."""
        span = values["range"]
        read = {
            "labels": tuple(values["labels"]),
            "range": tuple(span) if span else None,
            "head": HeadRecipe.model_validate(values["head"]),
        }
        return cls(**{**values, **read})


def loss_per_row(task: Task, outputs: "Tensor", targets: "Tensor") -> "Tensor":
    """Losses [B] from a head's outputs [B, num_outputs] and targets [B] (multilabel: [B, num_outputs])."""
    from torch.nn import functional as F

    outputs = outputs.float()
    match task.kind:
        case "classification" if task.head.kind == "cosine":
            return F.mse_loss(outputs.squeeze(1), targets.to(outputs.dtype), reduction="none")
        case "classification":
            return F.cross_entropy(outputs, targets, reduction="none")
        case "multilabel":
            flags = targets.to(outputs.dtype)  # a table holds them as bytes
            return F.binary_cross_entropy_with_logits(outputs, flags, reduction="none").mean(dim=1)
        case "regression":
            middle, unit = value_scale(task)
            return F.mse_loss(outputs.squeeze(1), (targets - middle) / unit, reduction="none")


def answers(task: Task, outputs: Floats) -> Floats:
    """Probabilities [B, num_outputs], or a regression's values [B, 1] clamped to its range."""
    outputs = outputs.astype(np.float32)
    match task.kind:
        case "classification" if task.head.kind == "cosine":
            second = outputs.clip(0, 1)
            return np.concatenate([1 - second, second], axis=1)
        case "classification":
            shares = np.exp((outputs - outputs.max(axis=1, keepdims=True)) / np.float32(task.temperature))
            return shares / shares.sum(axis=1, keepdims=True)
        case "multilabel":
            # The logistic function, written so that no value overflows.
            return (1 + np.tanh(outputs / np.float32(2 * task.temperature))) / 2
        case "regression":
            assert task.range is not None
            middle, unit = value_scale(task)
            return (outputs * np.float32(unit) + np.float32(middle)).clip(*task.range)


def value_scale(task: Task) -> tuple[float, float]:
    """A regression's middle and unit: its range is four units wide, so that its loss is about as large as the
    cross-entropies beside it whatever the range is, and an untrained head answers the middle."""
    assert task.range is not None, "a regression's range is known once its data was read"
    low, high = task.range
    return (low + high) / 2, (high - low) / 4
