"""One phase of a recipe: a stretch of training with its own tasks, trainable part and schedule."""

import re
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from polytask.choices import Table, Words
from polytask.errors import one_of
from polytask.update_choices import (
    ALL_TASKS_EACH,
    Average,
    AverageRecipe,
    Combine,
    CombineRecipe,
    LossWeights,
    LossWeightsRecipe,
    Memory,
    MemoryRecipe,
    RDrop,
    Sampler,
    SamplerRecipe,
    Smart,
)

TRAIN_WORD = re.compile(r"all|heads|adapters|top-[1-9][0-9]{0,2}")
DEFAULT_LR = {"heads": 2e-3}  # nothing pretrained moves, so a high rate is safe
FINE_TUNING_LR = 5e-5


class PhaseRecipe(Table):
    """A stretch of training with its own tasks, trainable part, schedule and learning rate."""

    tasks: tuple[str, ...] | None = Field(default=None, min_length=1)
    train: Words = Field(default=("all",), min_length=1)  # a word, or patterns of parameter names
    adapters: bool = True  # whether task-specific layers take part
    epochs: int = Field(default=3, ge=1, le=10_000)
    steps_per_epoch: int | None = Field(default=None, ge=1)
    batch_size: int = Field(default=32, ge=1, le=65_536)
    micro_batch: int | None = Field(default=None, ge=1, le=65_536)  # rows that go through the model at once
    lr: float = Field(gt=0, le=1)
    head_lr: float | None = Field(default=None, gt=0, le=1)  # of heads and adapters; lr where not given
    layer_decay: float = Field(default=1.0, gt=0, le=1)  # of the rate, from each layer to the one below
    unfreeze: float = Field(default=0.0, ge=0, le=1)  # share of the phase by which all layers are trained
    warmup: float = Field(default=0.1, ge=0, le=1)
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    weight_decay: float = Field(default=0.01, ge=0, le=1)
    clip: float = Field(default=1.0, ge=0)  # 0 switches clipping off
    sampler: Sampler = SamplerRecipe()
    combine: Combine = CombineRecipe()
    conflict_every: int = Field(default=50, ge=0)  # updates between two looks at the conflict; 0: never
    loss_weights: LossWeights = LossWeightsRecipe()
    smart: Smart = None
    rdrop: RDrop = 0.0
    average: Average = AverageRecipe()
    memory: Memory = MemoryRecipe()
    begin: Literal["last", "best"] = "last"  # which weights so far the phase begins with
    patience: int = Field(default=0, ge=0)  # epochs without a better dev mean before the phase ends; 0: never

    @model_validator(mode="before")
    @classmethod
    def _fill_lr(cls, values: Any) -> Any:
        if isinstance(values, dict) and "lr" not in values:
            return {**values, "lr": DEFAULT_LR.get(str(values.get("train")), FINE_TUNING_LR)}
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        word = self.train[0]
        if len(self.train) == 1 and not TRAIN_WORD.fullmatch(word) and not set(word) & set(".*"):
            words = ("all", "heads", "adapters", "top-N", "patterns such as 'encoder.layers.5.*'")
            raise ValueError(f"train {one_of(words, word)}")
        if self.loss_weights.kind == "famo" and self.sampler.kind not in ALL_TASKS_EACH:
            raise ValueError(
                "loss_weights is 'famo', which compares all tasks in every update: sampler should be one of "
                f"{', '.join(ALL_TASKS_EACH)}. Found {self.sampler.kind!r}."
            )
        if self.loss_weights.kind == "famo" and self.micro_batch is not None:
            raise ValueError(
                "micro_batch does not go with loss_weights 'famo', which needs the loss of a whole draw "
                "before its gradient."
            )
        if self.memory.kind in ("gem", "agem") and self.combine.kind != "sum":
            raise ValueError(
                f"memory is {self.memory.kind!r}, which combines gradients itself: combine should be 'sum'. "
                f"Found {self.combine.kind!r}."
            )
        one_draw = self.sampler.kind not in ALL_TASKS_EACH and (self.sampler.draws or 1) == 1
        if self.combine.kind != "sum" and one_draw and self.memory.kind != "replay":
            raise ValueError(
                f"combine is {self.combine.kind!r}, but sampler {self.sampler.kind!r} draws one task an "
                "update, which leaves nothing to combine: sampler should be one of "
                f"{', '.join(ALL_TASKS_EACH)}, or have draws of 2 and more."
            )
        return self
