"""One task of a recipe: its files, its columns, its preparation and how it is scored."""

import re
from typing import Literal, Self

from pydantic import Field, model_validator

from polytask.choices import Head, HeadRecipe, Table, Words
from polytask.errors import one_of
from polytask.recipe_preparation import Augment, AugmentRecipe, Balance, Joins, Labels

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


class TaskRecipe(Table):
    """One task: its files, its columns and how it is scored."""

    train: str = Field(min_length=1)
    dev: str | None = None
    test: str | None = None
    kind: Kind = "classification"
    text: Words = Field(default=("text",), min_length=1, max_length=2)
    label: Words = Field(default=("label",), min_length=1)
    id: str = "id"
    labels: Labels = None
    range: tuple[float, float] | None = None
    pairs: Pairs | None = None
    head: Head = HeadRecipe()
    pooling: Pooling | None = None
    dropout: float = Field(default=0.1, ge=0, lt=1)
    metric: Metric | None = None
    in_mean: bool = True
    bad_rows: BadRows | None = None
    join: Joins = ()
    drop_longest: float | None = Field(default=None, ge=0, lt=1)
    augment: Augment = AugmentRecipe()
    balance: Balance = "none"

    @model_validator(mode="before")
    @classmethod
    def _one_file(cls, values: object) -> object:
        if isinstance(values, dict) and isinstance(values.get("train"), list):
            found = values["train"]
            raise ValueError(f"train should be one file or set; join = [...] adds more to it. Found {found}.")
        return values

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
        if self.balance != "none" and self.kind != "classification":
            wrong.append(f"balance evens out classes. Found it with kind {self.kind!r}.")
        if self.augment.kind == "eda" and self.augment.num_copies() == 0 and self.balance != "eda":
            wrong.append("augment.copies is 0, and balance is not 'eda': nothing would be added.")
        for number, more in enumerate(self.join):
            if more.labels is not None and self.kind == "regression":
                wrong.append(f"join.{number}.labels belong to classes. Found them with kind 'regression'.")
            if more.text is not None and "text" in self.model_fields_set and len(more.text) != len(self.text):
                wrong.append(
                    f"join.{number}.text should be {len(self.text)} column(s). Found {list(more.text)}."
                )
        if wrong:
            raise ValueError("\n".join(wrong))
        return self
