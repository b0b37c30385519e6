"""A model's answers to whole token tables, and their scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from polytask.data.batches import Collator, budget_batches
from polytask.data.tokens import TokenTable
from polytask.evaluate.metrics import LESS_IS_BETTER, score
from polytask.model.compute import Compute
from polytask.model.multitask import MultitaskModel
from polytask.tasks import Task, answers

TOKENS_PER_BATCH = 8192

Answers = npt.NDArray[np.float32]


@dataclass(frozen=True)
class TaskScore:
    """How a task did on one set of rows."""

    metric: str
    score: float
    rows: int
    metrics: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        metrics = {name: round(value, 6) for name, value in self.metrics.items()}
        return {"metric": self.metric, "score": round(self.score, 6), "rows": self.rows, "metrics": metrics}


def answer_table(
    model: MultitaskModel, task: Task, table: TokenTable, collator: Collator, compute: Compute
) -> Answers:
    """Probabilities [N, num_outputs] or values [N, 1] for every row of a table, in its order."""
    return answer_tasks(model, [task], table, collator, compute)[task.name]


def answer_tasks(
    model: MultitaskModel, tasks: Sequence[Task], table: TokenTable, collator: Collator, compute: Compute
) -> dict[str, Answers]:
    """Several tasks' answers to the same rows, which the encoder reads once; all take the same form."""
    first = tasks[0]
    assert len({(task.texts, task.separate) for task in tasks}) == 1
    found = {task.name: np.empty((table.num_rows, task.num_outputs), dtype=np.float32) for task in tasks}
    model.eval()
    with torch.inference_mode(), compute.autocast():
        for rows in budget_batches(collator.lengths(first, table), TOKENS_PER_BATCH):
            batch = collator.batch(first, table, rows)
            shared = replace(batch, slices=dict.fromkeys(found, batch.slices[first.name]))
            outputs = model(shared.to(compute.device))
            for task in tasks:
                found[task.name][rows] = answers(task, outputs[task.name]).cpu().numpy()
    return found


def score_answers(task: Task, found: Answers, table: TokenTable) -> TaskScore:
    """The task's metrics over all rows of a labelled table."""
    assert table.targets is not None, "only labelled rows can be scored"
    metrics = score(task, found, np.asarray(table.targets))
    return TaskScore(task.metric, metrics[task.metric], table.num_rows, metrics)


def mean_score(scores: Mapping[str, TaskScore]) -> float:
    """The plain mean over tasks of each task's own metric (an error such as `mse` counts negative)."""
    signed = [-item.score if item.metric in LESS_IS_BETTER else item.score for item in scores.values()]
    return float(np.mean(signed))


def scores_to_dict(scores: Mapping[str, TaskScore]) -> dict[str, Any]:
    """The document that `scores.json` and `evaluate --json` hold."""
    tasks = {name: item.to_dict() for name, item in scores.items()}
    return {"tasks": tasks, "mean": round(mean_score(scores), 6) if scores else None}
