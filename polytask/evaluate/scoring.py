"""A model's answers to whole token tables, and their scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from polytask.data.padding import Padder, budget_batches
from polytask.data.tokens import TokenTable
from polytask.evaluate.metrics import LESS_IS_BETTER, score
from polytask.evaluate.scorer import Scorer
from polytask.tasks import Floats, Task, answers

TOKENS_PER_BATCH = 8192

Answers = Floats


@dataclass(frozen=True)
class TaskScore:
    """How a task did on one set of rows."""

    metric: str
    score: float
    rows: int
    metrics: Mapping[str, float]
    in_mean: bool = True

    def to_dict(self) -> dict[str, Any]:
        metrics = {name: round(value, 6) for name, value in self.metrics.items()}
        shown = {"metric": self.metric, "score": round(self.score, 6), "rows": self.rows, "metrics": metrics}
        return shown if self.in_mean else {**shown, "in_mean": False}


def answer_table(scorer: Scorer, task: Task, table: TokenTable, padder: Padder) -> Answers:
    """Probabilities [N, num_outputs] or values [N, 1] for every row of a table, in its order."""
    return answer_tasks(scorer, [task], table, padder)[task.name]


def answer_tasks(
    scorer: Scorer, tasks: Sequence[Task], table: TokenTable, padder: Padder
) -> dict[str, Answers]:
    """Several tasks' answers to the same rows, which the encoder reads once; all take the same form."""
    outputs = output_tasks(scorer, tasks, table, padder)
    return {task.name: answers(task, outputs[task.name]) for task in tasks}


def output_tasks(
    scorer: Scorer,
    tasks: Sequence[Task],
    table: TokenTable,
    padder: Padder,
    part: tuple[int, int] = (0, 1),
) -> dict[str, Answers]:
    """The heads' outputs behind `answer_tasks`: [N, output_width].

    `part` (p, P) runs the p-th of every P batches and leaves the other rows 0.
    """
    first = tasks[0]
    assert len({(task.texts, task.separate) for task in tasks}) == 1
    found: dict[str, Answers] = {
        task.name: np.zeros((table.num_rows, task.output_width), dtype=np.float32) for task in tasks
    }
    batches = budget_batches(padder.lengths(first, table), TOKENS_PER_BATCH)
    for rows in islice(batches, part[0], None, part[1]):
        padded = padder.pad(first, table, rows)
        everything = slice(0, len(padded.lengths))
        outputs = scorer.outputs(padded, {task.name: everything for task in tasks})
        for name, values in outputs.items():
            found[name][rows] = values
    return found


def score_answers(task: Task, found: Answers, table: TokenTable) -> TaskScore:
    """The task's metrics over all rows of a labelled table."""
    assert table.targets is not None, "only labelled rows can be scored"
    metrics = score(task, found, np.asarray(table.targets))
    return TaskScore(task.metric, metrics[task.metric], table.num_rows, metrics, task.in_mean)


def mean_score(scores: Mapping[str, TaskScore]) -> float:
    """The plain mean over tasks of each task's own metric (an error such as `mse` counts negative).

    Tasks that are to be left out of it count only where there are no others.
    """
    counted = [item for item in scores.values() if item.in_mean] or list(scores.values())
    signed = [-item.score if item.metric in LESS_IS_BETTER else item.score for item in counted]
    return float(np.mean(signed))


def scores_to_dict(scores: Mapping[str, TaskScore]) -> dict[str, Any]:
    """The document that `scores.json` and `evaluate --json` hold."""
    tasks = {name: item.to_dict() for name, item in scores.items()}
    return {"tasks": tasks, "mean": round(mean_score(scores), 6) if scores else None}
