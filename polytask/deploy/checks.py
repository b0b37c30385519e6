"""Whether an exported model answers as the one it came from: on labelled rows where there are any."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytask.data.tokens import TokenTable, table_from_texts
from polytask.deploy.model import Model
from polytask.evaluate.metrics import decide
from polytask.evaluate.scoring import answer_table, score_answers
from polytask.tasks import Task, value_scale

FP32_DIFFERENCE = 1e-4  # of two engines that compute the same in fp32
INT8_SCORE = 0.01  # of a dev score
INT8_AGREEMENT = 0.95  # of the answers, where no labels tell what a change is worth

SENTENCES = (
    "A fine example of its kind.",
    "The service was slow and the food was cold.",
    "Can I change the delivery address after I have paid?",
    "No.",
    "Two dogs run across a snowy field while a child watches from the porch.",
    "The committee will meet again on Thursday to discuss the budget for 2027.",
    "It is neither as funny nor as touching as its makers seem to think, but the leads almost save it.",
    "How do I reset my password?",
    "Großartig, einfach großartig! 😀",
    "Shares fell 3.4% in early trading after the company cut its forecast for the second time this year.",
    "A man is playing a guitar on stage.",
    "Someone plays an instrument in front of a crowd.",
)


@dataclass(frozen=True)
class TaskCheck:
    """How two models' answers to the same rows of a task differ."""

    rows: int
    largest_difference: float  # of a probability, or of a value as a share of its range
    same_answers: float  # the share of rows; a value is the same within a fiftieth of its range
    metric: str
    score_before: float | None  # None where the rows have no labels
    score_after: float | None

    @property
    def score_change(self) -> float | None:
        """How much the score moved, either way."""
        if self.score_before is None or self.score_after is None:
            return None
        return abs(self.score_after - self.score_before)

    def to_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = {**vars(self), "score_change": self.score_change}
        return {
            name: round(value, 9) if isinstance(value, float) else value for name, value in values.items()
        }


def compare(
    before: Model, after: Model, tables: Mapping[str, TokenTable], names: tuple[str, ...] | None = None
) -> dict[str, TaskCheck]:
    """Every task's answers through both models, on its table or else on a few built-in sentences."""
    return {
        name: _compare_task(before, after, before.tasks[name], tables.get(name))
        for name in (names if names is not None else tuple(before.tasks))
    }


def problem(check: TaskCheck, task: Task, *, int8: bool, tolerance: float | None) -> str | None:
    """Why a task's answers differ too much for the model to be written; None if they do not."""
    if not int8:
        limit = tolerance if tolerance is not None else FP32_DIFFERENCE
        if check.largest_difference <= limit:
            return None
        return f"{task.name}: answers differ by {check.largest_difference:.2g}, more than {limit:g}"
    if (change := check.score_change) is None:
        if check.same_answers >= INT8_AGREEMENT:
            return None
        return f"{task.name}: only {check.same_answers:.0%} of the answers stay the same"
    limit = tolerance if tolerance is not None else INT8_SCORE
    if task.metric == "mse":  # in units of its size, as the other metrics are
        change /= value_scale(task)[1] ** 2
    if change <= limit:
        return None
    return (
        f"{task.name}: {task.metric} goes from {check.score_before:.4f} to {check.score_after:.4f}, "
        f"by more than {limit:g}"
    )


def built_in_rows(task: Task) -> list[tuple[str, ...]]:
    """Sentences or pairs to compare models on where nothing better is at hand."""
    if task.texts == 1:
        return [(text,) for text in SENTENCES]
    return [(first, second) for first in SENTENCES for second in SENTENCES[:4]]


def _compare_task(before: Model, after: Model, task: Task, table: TokenTable | None) -> TaskCheck:
    if table is None:
        table = table_from_texts(built_in_rows(task), before.tokenizer)
    first, second = (
        answer_table(model.scorer, model.task(task.name), table, before.padder) for model in (before, after)
    )
    width = task.range[1] - task.range[0] if task.range is not None else 1.0
    difference = np.abs(first - second) / width
    if task.kind == "regression":
        same = difference[:, 0] <= 1 / 50
    else:
        alike = decide(task, first) == decide(task, second)
        same = alike.all(axis=1) if alike.ndim == 2 else alike
    scores = [
        score_answers(task, found, table).score if table.targets is not None else None
        for found in (first, second)
    ]
    return TaskCheck(table.num_rows, float(difference.max()), float(same.mean()), task.metric, *scores)
