"""Where a run stands between two updates, besides its tensors, and the losses since it last said so."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import Tensor

from polytask.train.parallel import World


class TrainingError(RuntimeError):
    """Training cannot go on: the loss is no longer a number."""


class TrainingStopped(KeyboardInterrupt):
    """The user asked for a stop; the run folder holds a checkpoint of the last finished update."""


@dataclass
class State:
    """Plain values that a checkpoint keeps as JSON."""

    phase: int = 0
    update: int = 0  # finished updates of this phase
    total_updates: int = 0
    seconds: float = 0.0  # of training, without evaluation
    tokens: int = 0  # real ones trained on
    positions: dict[str, int] = field(default_factory=dict)  # batches drawn from each task
    drawn: dict[str, int] = field(default_factory=dict)  # rows drawn from each task
    best: dict[str, Any] | None = None  # phase, epoch, update, mean and scores of the best evaluation
    best_of_phase: float | None = None  # mean of the phase's tasks
    epochs_without_gain: int = 0
    scores: dict[str, float] = field(default_factory=dict)  # of the last evaluation
    stages: list[dict[str, Any]] = field(default_factory=list)  # tasks and scores of each finished phase
    conflict: dict[str, float] = field(default_factory=dict)  # sums over all looks at the tasks' gradients
    finished: bool = False


@final
class LossLog:
    """Mean losses since the last event; kept as tensors so that a GPU is not waited for."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._counts: dict[str, float] = {}

    def add(self, task: str, loss: Tensor, share: float) -> None:
        """The loss of a part of a draw that has this share of the draw's rows."""
        loss = loss * share
        self._sums[task] = self._sums[task] + loss if task in self._sums else loss
        self._counts[task] = self._counts.get(task, 0) + share

    def take(self, tasks: Sequence[str], world: World) -> dict[str, float]:
        """The means over all processes, task by task; starts anew."""
        sums = [(float(self._sums.get(task, 0.0)), self._counts.get(task, 0.0)) for task in tasks]
        self._sums, self._counts = {}, {}
        totals = torch.tensor(sums, dtype=torch.float64)
        world.sum([totals])
        return {
            task: total / count
            for task, (total, count) in zip(tasks, totals.tolist(), strict=True)
            if count > 0
        }
