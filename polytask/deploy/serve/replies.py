"""The documents that a server answers with, as its OpenAPI shows them."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Exact(BaseModel):
    """A document without other keys."""

    model_config = ConfigDict(extra="forbid")


class Label(Exact):
    """The answer of a classification: the likeliest label, and every label's probability."""

    label: str
    probabilities: dict[str, float]


class Labels(Exact):
    """The answer of a multilabel task: those that are likelier than not, and every label's probability."""

    labels: list[str]
    probabilities: dict[str, float]


class Value(Exact):
    """The answer of a regression."""

    value: float


class Predicted(Exact):
    """An answer for each text or pair, in their order, by task; and how long it took."""

    answers: list[dict[str, Label | Labels | Value]]
    milliseconds: float


class TaskReply(Exact):
    """What a task is asked of, and how it answers."""

    kind: Literal["classification", "regression", "multilabel"]
    texts: Literal[1, 2]
    labels: list[str]
    range: list[float] | None
    model: str


class Tasks(Exact):
    """Every task by name."""

    tasks: dict[str, TaskReply]


class Reloaded(Exact):
    """Models by name, as a second look at the folder found them."""

    added: list[str]
    removed: list[str]
    reloaded: list[str]
    failed: dict[str, str]


class Status(Exact):
    """Whether the server is well."""

    status: str


class Error(Exact):
    """Why there is no answer, in one sentence."""

    error: str
