"""What a run's files say, checked: the events and scores that a report reads."""

from itertools import combinations
from typing import Annotated, Self

from pydantic import AllowInfNan, BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=0, le=2**53)]  # what a double holds exactly, so a page's script does too


class Fact(BaseModel):
    """Something a run wrote down; keys that the report does not know are left alone."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, protected_namespaces=())


class Share(Fact):
    """What part of an epoch's draws each task gets."""

    epoch: Count
    share: dict[str, Annotated[float, Field(ge=0)]]


class Phase(Fact):
    """A stretch of training as it was planned."""

    phase: Count
    train: str
    tasks: tuple[str, ...]
    epochs: Count
    updates: Count
    schedule: tuple[Share, ...] = ()


class Update(Fact):
    """One optimiser step; a loss may be NaN when training diverged."""

    phase: Count
    update: Count
    epoch: Count
    seconds: float
    tokens: Count
    lr: float
    losses: dict[str, Annotated[float, AllowInfNan(True)]]


class Evaluation(Fact):
    """Scores on dev in the middle of training."""

    phase: Count
    epoch: Count
    update: Count
    scores: dict[str, float]
    mean: float
    best: bool = False


class Conflict(Fact):
    """How far the gradients of an update's tasks pulled apart; pairs are (0, 1), (0, 2), ..., (1, 2), ..."""

    phase: Count
    update: Count
    tasks: Annotated[tuple[str, ...], Field(min_length=2)]
    cosines: tuple[float, ...]
    layers: dict[str, tuple[float, ...]] = {}
    pairs_in_conflict: float
    tensors_in_conflict: float
    norm_ratio: float | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        num_pairs = len(self.tasks) * (len(self.tasks) - 1) // 2
        if any(len(values) != num_pairs for values in (self.cosines, *self.layers.values())):
            raise ValueError("each pair of tasks should have one cosine")
        return self

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The names of the pairs, in the order of the cosines."""
        return list(combinations(self.tasks, 2))


class Rows(Fact):
    """How many rows of a task there are."""

    train: Count | None = None
    dev: Count | None = None


class Drawn(Fact):
    """How many rows of a task were trained on."""

    rows: Count


class Done(Fact):
    """The end of training."""

    seconds: float
    tokens: Count
    tokens_per_second: float
    parameters: Count | None = None
    model_parameters: Count | None = None
    encoder: str | None = None
    rows: dict[str, Rows] = {}
    drawn: dict[str, Drawn] = {}
    precision: str | None = None
    own_parameters: dict[str, Count] = {}
    classes: dict[str, dict[str, Count]] = {}  # how often each label occurs on train


class Calibration(Fact):
    """A task's temperature, and the calibration error without and with one."""

    temperature: Annotated[float, Field(gt=0)]
    error_before: float
    error_after: float


class TaskScore(Fact):
    """The final scores of one task on dev."""

    metric: str
    score: float
    rows: Count
    metrics: dict[str, float] = {}
    baselines: dict[str, float] = {}
    calibration: Calibration | None = None
    in_mean: bool = True


class Best(Fact):
    """The moment whose weights were kept."""

    phase: Count
    epoch: Count


class Stage(Fact):
    """A row of the score matrix: all tasks' scores after some were trained; of none: before training."""

    tasks: tuple[str, ...]
    scores: dict[str, float]


class Transfer(Fact):
    """The score matrix of a run whose phases train different tasks, and what follows from it."""

    stages: tuple[Stage, ...]
    forgetting: dict[str, float] = {}
    backward: dict[str, float] = {}
    forward: dict[str, float] = {}
    mean: dict[str, float] = {}


class Single(Fact):
    """The scores of tasks that were trained alone by the same recipe."""

    tasks: dict[str, TaskScore]
    mean: float | None = None


class Earlier(Fact):
    """What adding a task did to the answers of one that was there before."""

    rows: Count
    of: str
    changed_rows: Count
    largest_change: float


class Verdict(Fact):
    """What all looks at the tasks' gradients come to."""

    verdict: str


class Scores(Fact):
    """What `scores.json` holds."""

    tasks: dict[str, TaskScore]
    mean: float | None  # None where no task has dev rows
    best: Best | None = None
    transfer: Transfer | None = None
    earlier_tasks: dict[str, Earlier] = {}
    single: Single | None = None
    conflict: Verdict | None = None

    @property
    def baselines(self) -> list[str]:
        """Every baseline that some task has."""
        return [*dict.fromkeys(key for task in self.tasks.values() for key in task.baselines)]
