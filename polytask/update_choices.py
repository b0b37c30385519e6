"""What a phase chooses by name for its updates: sampler, combiner, loss weights, averages, memory."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from polytask.choices import Choice, Table, as_table, as_word_or_table, refuse_others

Weights = dict[str, Annotated[float, Field(ge=0, le=1e9)]]
Scope = Literal["whole", "layer", "tensor"]

SAMPLER_OPTIONS: dict[str, tuple[str, ...]] = {
    "round_robin": ("draws",),
    "random": ("draws",),
    "proportional": ("draws",),
    "sqrt": ("draws",),
    "power": ("power", "draws"),
    "temperature": ("temperature", "draws"),
    "annealed": ("per", "draws"),
    "weights": ("weights", "draws"),
    "joint": (),
    "cycle": (),
    "compromise": ("draws", "per", "force"),
}
ALL_TASKS_EACH = ("joint", "cycle", "compromise")  # samplers whose every update draws every task
COMPROMISE_DRAWS = 16


class SamplerRecipe(Choice):
    """How an update's draws are chosen among the tasks."""

    kind: Literal[
        "round_robin",
        "random",
        "proportional",
        "sqrt",
        "power",
        "temperature",
        "annealed",
        "weights",
        "joint",
        "cycle",
        "compromise",
    ] = "annealed"
    draws: int | None = Field(default=None, ge=1, le=10_000)
    power: float | None = Field(default=None, ge=0, le=10)
    temperature: float | None = Field(default=None, gt=0, le=1e6)
    per: Literal["epoch", "step"] | None = None
    weights: Weights | None = Field(default=None, min_length=1)
    force: bool | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = self.model_dump(exclude_none=True, exclude={"kind"})
        refuse_others(self.kind, given, SAMPLER_OPTIONS[self.kind])
        if self.kind in ("power", "temperature", "weights") and self.kind not in given:
            raise ValueError(f"{self.kind} is missing: sampler {self.kind!r} needs it.")
        if self.weights is not None and sum(self.weights.values()) <= 0:
            raise ValueError(f"weights should not all be 0. Found {self.weights}.")
        return self


COMBINE_OPTIONS: dict[str, tuple[str, ...]] = {
    "sum": (),
    "mean": (),
    "pcgrad": ("scope", "mode"),
    "vaccine": ("beta", "scope", "mode"),
    "cagrad": ("c", "scope", "mode"),
    "mgda": ("scope", "mode"),
    "imtl": ("scope", "mode"),
    "nash": ("scope", "mode"),
    "aligned": ("scope", "mode"),
    "upgrad": ("scope", "mode"),
    "dualproj": ("scope", "mode"),
    "random": ("scope", "mode"),
}


# Methods that people look for among the combiners, and why they are not there.
PER_ELEMENT = "it decides element by element, which the tasks' dot products cannot tell"
NOT_A_COMBINER = {
    "graddrop": PER_ELEMENT,
    "gradsign": PER_ELEMENT,
    "median": PER_ELEMENT,
    "trimmed_mean": PER_ELEMENT,
    "rotograd": "it turns the features that the tasks read, not their gradients",
    "recon": "it changes which layers are shared",
    "modo": "it needs two independent batches of every task in an update",
    "sdmgrad": "it needs three independent batches of every task in an update",
    "gradnorm": "it weighs losses; loss_weights has 'dwa' and 'famo' for that",
    **{word: f"it weighs losses: set loss_weights to {word!r}" for word in ("famo", "dwa", "uncertainty")},
    **{word: f"it needs a memory: set memory to {word!r}" for word in ("gem", "agem")},
    "gradvac": "here it is called 'vaccine'",
    "compromise": "it is a sampler: set sampler to 'compromise' and combine to 'vaccine'",
}


class CombineRecipe(Choice):
    """How the gradients of an update's draws become one."""

    kind: Literal[
        "sum",
        "mean",
        "pcgrad",
        "vaccine",
        "cagrad",
        "mgda",
        "imtl",
        "nash",
        "aligned",
        "upgrad",
        "dualproj",
        "random",
    ] = "sum"
    scope: Scope | None = None
    mode: Literal["fast", "lean"] | None = None
    beta: float | None = Field(default=None, ge=0, le=1)
    c: float | None = Field(default=None, ge=0, lt=1)

    @model_validator(mode="before")
    @classmethod
    def _refuse_by_name(cls, values: Any) -> Any:
        word = values.get("kind") if isinstance(values, dict) else None
        if isinstance(word, str) and (why := NOT_A_COMBINER.get(word.lower())):
            raise ValueError(f"kind should be the name of a combiner, and {word!r} is none: {why}.")
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = self.model_dump(exclude_none=True, exclude={"kind"})
        refuse_others(self.kind, given, COMBINE_OPTIONS[self.kind])
        return self


LOSS_WEIGHT_OPTIONS: dict[str, tuple[str, ...]] = {
    "none": (),
    "fixed": ("weights",),
    "uncertainty": ("lr",),
    "dwa": ("temperature",),
    "initial": (),
    "famo": ("lr", "decay"),
}


class LossWeightsRecipe(Choice):
    """What each task's loss is multiplied by."""

    kind: Literal["none", "fixed", "uncertainty", "dwa", "initial", "famo"] = "none"
    weights: Weights | None = Field(default=None, min_length=1)
    lr: float | None = Field(default=None, gt=0, le=1)
    temperature: float | None = Field(default=None, gt=0, le=1e6)
    decay: float | None = Field(default=None, ge=0, le=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = self.model_dump(exclude_none=True, exclude={"kind"})
        refuse_others(self.kind, given, LOSS_WEIGHT_OPTIONS[self.kind])
        if self.kind == "fixed" and self.weights is None:
            raise ValueError("weights is missing: loss_weights 'fixed' needs it.")
        return self


class SmartRecipe(Table):
    """SMART's smoothness term (Jiang et al. 2020): answers should stay under tiny changes of input."""

    weight: float = Field(default=1.0, gt=0, le=1e6)
    noise: float = Field(default=1e-5, gt=0, le=1)  # sigma of the first perturbation
    step: float = Field(default=1e-3, gt=0, le=10)  # eta, how far it then moves along the gradient
    radius: float = Field(default=1e-3, gt=0, le=10)  # epsilon, how far it may get in any coordinate
    steps: int = Field(default=1, ge=1, le=20)


AVERAGE_OPTIONS: dict[str, tuple[str, ...]] = {"none": (), "ema": ("decay", "start"), "mean": ("start",)}


class AverageRecipe(Choice):
    """Which average over the updates is scored and kept in the place of the last weights."""

    kind: Literal["none", "ema", "mean"] = "none"
    decay: float | None = Field(default=None, ge=0, lt=1)
    start: float | None = Field(default=None, ge=0, lt=1)  # share of the phase after which averaging begins

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = self.model_dump(exclude_none=True, exclude={"kind"})
        refuse_others(self.kind, given, AVERAGE_OPTIONS[self.kind])
        return self


MEMORY_OPTIONS: dict[str, tuple[str, ...]] = {
    "none": (),
    "keep": ("rows", "choose"),
    "replay": ("rows", "choose", "batch_size"),
    "gem": ("rows", "choose", "batch_size", "margin", "ridge", "scope", "mode"),
    "agem": ("rows", "choose", "batch_size", "scope", "mode"),
}
MEMORY_ROWS = 256  # kept of each task
GEM_MARGIN = 0.5  # the least weight of a remembered gradient once there is a conflict


class MemoryRecipe(Choice):
    """What is kept of the tasks of earlier phases, and how it holds the shared parameters to them."""

    kind: Literal["none", "keep", "replay", "gem", "agem"] = "keep"
    rows: int | None = Field(default=None, ge=1, le=1_000_000)  # of each earlier task
    choose: Literal["balanced", "herding", "random", "ring"] | None = None
    batch_size: int | None = Field(default=None, ge=1, le=65_536)  # rows of memory in an update, of all tasks
    margin: float | None = Field(default=None, ge=0, le=1e6)
    ridge: float | None = Field(default=None, ge=0, le=1e6)  # added to the diagonal of the memory's Gram
    scope: Literal["whole", "layer"] | None = None
    mode: Literal["fast", "lean"] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = self.model_dump(exclude_none=True, exclude={"kind"})
        refuse_others(self.kind, given, MEMORY_OPTIONS[self.kind])
        return self

    @property
    def rehearses(self) -> bool:
        """Whether updates draw rows of earlier tasks."""
        return self.kind in ("replay", "gem", "agem")

    @property
    def projects(self) -> bool:
        """Whether the memory's gradients are kept apart, to hold the others to them."""
        return self.kind in ("gem", "agem")


def _switch(value: object) -> object:
    """`true` is a table with nothing but defaults, `false` is its absence."""
    if value is True:
        return {}
    return None if value is False else value


def _weight(value: object) -> object:
    return float(value) if isinstance(value, bool) else value


_Word = (BeforeValidator(as_table), PlainSerializer(as_word_or_table))
Sampler = Annotated[SamplerRecipe, *_Word]
Combine = Annotated[CombineRecipe, *_Word]
LossWeights = Annotated[LossWeightsRecipe, *_Word]
Average = Annotated[AverageRecipe, *_Word]
Memory = Annotated[MemoryRecipe, *_Word]
Smart = Annotated[SmartRecipe | None, BeforeValidator(_switch)]
RDrop = Annotated[float, BeforeValidator(_weight), Field(ge=0, le=1e6)]
Tables = dict[str, type[Table]]

TABLES: Tables = {
    "sampler": SamplerRecipe,
    "combine": CombineRecipe,
    "loss_weights": LossWeightsRecipe,
    "smart": SmartRecipe,
    "average": AverageRecipe,
    "memory": MemoryRecipe,
}


def check_task_names(phase: Any, tasks: tuple[str, ...]) -> list[str]:
    """What is wrong with weights given by hand and numbers of draws, once the phase's tasks are known."""
    wrong = []
    draws = phase.sampler.draws
    if phase.sampler.kind == "compromise" and draws is not None and draws < len(tasks):
        wrong.append(f"sampler.draws should be at least the phase's {len(tasks)} tasks. Found {draws}.")
    for key, table in (("sampler", phase.sampler.weights), ("loss_weights", phase.loss_weights.weights)):
        if table is None:
            continue
        strange = [name for name in table if name not in tasks]
        absent = [name for name in tasks if name not in table]
        if strange:
            wrong.append(
                f"{key}.weights should name tasks of the phase, {', '.join(tasks)}. Found {strange[0]!r}."
            )
        if absent:
            wrong.append(f"{key}.weights should name every task of the phase. {absent[0]!r} is missing.")
    return wrong
