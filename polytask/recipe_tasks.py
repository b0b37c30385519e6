"""One task of a recipe: its files, its columns, its preparation and how it is scored."""

import re
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from polytask.choices import Head, HeadRecipe, Table, Words
from polytask.errors import one_of

TASK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")  # task names become file names in the run folder

Kind = Literal["classification", "regression", "multilabel"]
Metric = Literal["accuracy", "f1", "f1_macro", "matthews", "pearson", "spearman", "mse"]
Pairs = Literal["joined", "separate"]
Pooling = Literal["cls", "pooler", "mean", "attention"]
BadRows = Literal["stop", "skip"]

DEFAULT_METRIC: dict[str, Metric] = {
    "classification": "accuracy",
    "regression": "pearson",
    "multilabel": "f1_macro",
}
METRICS_OF_KIND: dict[str, tuple[Metric, ...]] = {
    "classification": ("accuracy", "f1", "f1_macro", "matthews"),
    "regression": ("pearson", "spearman", "mse"),
    "multilabel": ("f1_macro", "f1", "accuracy"),
}


def _as_strings(value: object) -> object:
    """Labels may be written as numbers; a list is read as names, a table as `found in the file` -> name."""
    if isinstance(value, list):
        return {str(item): str(item) for item in value}
    if isinstance(value, dict):
        return {str(found): str(name) for found, name in value.items()}
    return value


class TaskRecipe(Table):
    """One task: its files, its columns and how it is scored."""

    train: str = Field(min_length=1)
    dev: str | None = None
    test: str | None = None
    kind: Kind = "classification"
    text: Words = Field(default=("text",), min_length=1, max_length=2)
    label: Words = Field(default=("label",), min_length=1)
    id: str = "id"
    labels: Annotated[dict[str, str] | None, BeforeValidator(_as_strings)] = None
    range: tuple[float, float] | None = None
    pairs: Pairs | None = None
    head: Head = HeadRecipe()
    pooling: Pooling | None = None
    dropout: float = Field(default=0.1, ge=0, lt=1)
    metric: Metric | None = None
    in_mean: bool = True
    bad_rows: BadRows | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        wrong = []
        if self.metric is not None and self.metric not in METRICS_OF_KIND[self.kind]:
            wrong.append(f"metric {one_of(METRICS_OF_KIND[self.kind], self.metric)} (kind is {self.kind!r})")
        if self.kind == "regression" and self.labels is not None:
            wrong.append(
                "labels belong to classification and multilabel tasks. Found them with kind 'regression'."
            )
        if self.kind != "regression" and self.range is not None:
            wrong.append(f"range belongs to regression tasks. Found it with kind {self.kind!r}.")
        if self.range is not None and self.range[0] >= self.range[1]:
            wrong.append(f"range should be two numbers, the smaller first. Found {list(self.range)}.")
        if self.kind != "multilabel" and len(self.label) > 1:
            wrong.append(f"label should be one column unless kind is 'multilabel'. Found {list(self.label)}.")
        if self.labels is not None and len(set(self.labels.values())) < 2 and self.kind == "classification":
            wrong.append(f"labels should name at least two classes. Found {list(self.labels.values())}.")
        if wrong:
            raise ValueError("\n".join(wrong))
        return self
