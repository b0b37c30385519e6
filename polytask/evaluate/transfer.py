"""What each stage of training did to every task: the score matrix, forgetting and transfer."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Stage:
    """Scores of all tasks after a stage that trained some of them; of no tasks: before any training."""

    tasks: tuple[str, ...]
    scores: Mapping[str, float]


@dataclass(frozen=True)
class Transfer:
    """What the stages did to each task, as far as the matrix tells.

    R[s, j] is the score of task j after stage s, T the last stage; of an error such as `mse` its negative, so
    that a gain is positive. A task's first and last stage are those that train it.
    - forgetting (Chaudhry et al. 2018): max over s < T of R[s, j] - R[T, j], for tasks that T does not train;
    - backward (Lopez-Paz & Ranzato 2017): R[T, j] - R[last, j], for the same tasks;
    - forward (the same): R[first - 1, j] - R[before any training, j], for tasks that a stage came before.
    """

    forgetting: Mapping[str, float]
    backward: Mapping[str, float]
    forward: Mapping[str, float]


def measure_transfer(stages: Sequence[Stage], less_is_better: Collection[str] = ()) -> Transfer:
    """Compare the rows of the matrix; `less_is_better` names the tasks that an error scores."""
    forgetting, backward, forward = {}, {}, {}
    for task in dict.fromkeys(name for stage in stages for name in stage.tasks):
        sign = -1 if task in less_is_better else 1
        row = [sign * stage.scores[task] if task in stage.scores else None for stage in stages]
        trained = [number for number, stage in enumerate(stages) if task in stage.tasks]
        first, last = trained[0], trained[-1]
        final, learned = row[-1], row[last]
        if last < len(stages) - 1 and final is not None and learned is not None:
            earlier = [
                score
                for stage, score in zip(stages[:-1], row, strict=False)
                if stage.tasks and score is not None
            ]
            forgetting[task] = max(earlier) - final
            backward[task] = final - learned
        untrained, before = row[0], row[first - 1]
        if first > 1 and not stages[0].tasks and untrained is not None and before is not None:
            forward[task] = before - untrained
    return Transfer(forgetting, backward, forward)


def transfer_to_dict(stages: Sequence[Stage], less_is_better: Collection[str] = ()) -> dict[str, Any]:
    """The matrix and what follows from it, as `scores.json` holds them; a mean is over the tasks named."""
    found = measure_transfer(stages, less_is_better)
    parts = {"forgetting": found.forgetting, "backward": found.backward, "forward": found.forward}
    return {
        "stages": [{"tasks": list(stage.tasks), "scores": _rounded(stage.scores)} for stage in stages],
        **{name: _rounded(values) for name, values in parts.items()},
        "mean": _rounded(
            {name: sum(values.values()) / len(values) for name, values in parts.items() if values}
        ),
    }


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 6) for name, value in values.items()}
