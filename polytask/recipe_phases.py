"""One phase of a recipe: a stretch of training with its own tasks, trainable part and schedule."""

import re
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from polytask.choices import Combine, CombineRecipe, Sampler, SamplerRecipe, Table, Words
from polytask.errors import one_of

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
    lr: float = Field(gt=0, le=1)
    warmup: float = Field(default=0.1, ge=0, le=1)
    schedule: Literal["linear", "constant"] = "linear"
    weight_decay: float = Field(default=0.01, ge=0, le=1)
    clip: float = Field(default=1.0, ge=0)  # 0 switches clipping off
    sampler: Sampler = SamplerRecipe()
    combine: Combine = CombineRecipe()
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
        return self
