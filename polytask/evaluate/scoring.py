"""A model's answers to whole token tables, and their scores."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from polytask.data.batches import Collator, budget_batches
from polytask.data.tokens import TokenTable
from polytask.evaluate.metrics import score
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
    found = np.empty((table.num_rows, task.num_outputs), dtype=np.float32)
    model.eval()
    with torch.inference_mode(), compute.autocast():
        for rows in budget_batches(collator.lengths(task, table), TOKENS_PER_BATCH):
            batch = collator.batch(task, table, rows).to(compute.device)
            outputs = model(batch)[task.name]
            found[rows] = answers(task, outputs).cpu().numpy()
    return found


def score_answers(task: Task, found: Answers, table: TokenTable) -> TaskScore:
    """The task's metrics over all rows of a labelled table."""
    assert table.targets is not None, "only labelled rows can be scored"
    metrics = score(task, found, np.asarray(table.targets))
    return TaskScore(task.metric, metrics[task.metric], table.num_rows, metrics)


def mean_score(scores: Mapping[str, TaskScore]) -> float:
    """The plain mean over tasks of each task's own metric (an error such as `mse` counts negative)."""
    signed = [-item.score if item.metric == "mse" else item.score for item in scores.values()]
    return float(np.mean(signed))


def scores_to_dict(scores: Mapping[str, TaskScore]) -> dict[str, Any]:
    """The document that `scores.json` and `evaluate --json` hold."""
    tasks = {name: item.to_dict() for name, item in scores.items()}
    return {"tasks": tasks, "mean": round(mean_score(scores), 6) if scores else None}
