"""What a recipe chooses by name for its model: adapters and heads, with their options."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

Linear = Literal["query", "key", "value", "output", "up", "down"]


class Table(BaseModel):
    """A table of a recipe: unknown keys are mistakes and values never change."""

    # Schemas are built on first use, which keeps the import short.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


class Choice(Table):
    """A choice by name that may carry options: `"pal"` or `{ kind = "pal", size = 204 }`."""

    kind: str


ADAPTER_OPTIONS: dict[str, tuple[str, ...]] = {
    "none": (),
    "pal": ("size", "heads", "layers", "flavour"),
    "pal_unshared": ("size", "heads", "layers", "flavour"),
    "pal_top": ("size", "heads", "layers", "flavour"),
    "pal_bottom": ("size", "heads", "layers", "flavour"),
    "low_rank": ("size", "layers", "flavour"),
    "ffn": ("size", "layers", "flavour"),
    "houlsby": ("size", "layers", "flavour"),
    "houlsby_pal": ("size", "heads", "bottleneck", "layers", "flavour"),
    "lora": ("rank", "alpha", "linears", "layers"),
    "top_attention": ("size", "heads", "depth", "flavour"),
    "top_ffn": ("size", "depth", "flavour"),
    "top_layer": ("flavour",),
}


def refuse_others(kind: str, given: dict[str, Any], allowed: tuple[str, ...]) -> None:
    """Raise ValueError with a line for each option that a choice does not have."""
    wrong = [name for name in given if name not in allowed]
    if wrong:
        has = f"has {', '.join(allowed)}" if allowed else "has no options"
        raise ValueError("\n".join(f"{name} is not an option of {kind!r}, which {has}." for name in wrong))


def _layers(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return value


class AdapterRecipe(Choice):
    """Task-specific layers inside or on top of the encoder; what is not given follows the papers."""

    kind: Literal[
        "none",
        "pal",
        "pal_unshared",
        "pal_top",
        "pal_bottom",
        "low_rank",
        "ffn",
        "houlsby",
        "houlsby_pal",
        "lora",
        "top_attention",
        "top_ffn",
        "top_layer",
    ] = "none"
    flavour: Literal["zero", "paper", "published"] | None = None
    size: int | None = Field(default=None, ge=1, le=65_536)
    heads: int | None = Field(default=None, ge=1, le=1024)
    bottleneck: int | None = Field(default=None, ge=1, le=65_536)
    depth: int | None = Field(default=None, ge=1, le=100)
    rank: int | None = Field(default=None, ge=1, le=4096)
    alpha: float | None = Field(default=None, gt=0)
    linears: tuple[Linear, ...] | None = Field(default=None, min_length=1)
    # "all", "top-N", "bottom-N", or a list of layer numbers from 0
    layers: Annotated[str | None, BeforeValidator(_layers)] = Field(
        default=None, pattern=r"^(all|(top|bottom)-[1-9][0-9]{0,2}|[0-9]{1,3}(,[0-9]{1,3})*)$"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = self.model_dump(exclude_none=True, exclude={"kind"})
        allowed = ADAPTER_OPTIONS[self.kind]
        refuse_others(self.kind, given, allowed)
        return self


class HeadRecipe(Choice):
    """From a task's token states to its outputs."""

    kind: Literal["linear", "hidden", "large", "rnn", "lstm", "cosine"] = "linear"
    size: int | None = Field(default=None, ge=1, le=65_536)
    cls: bool | None = None
    scale: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _check(self) -> Self:
        allowed = HEAD_OPTIONS[self.kind]
        given = self.model_dump(exclude_none=True, exclude={"kind"})
        refuse_others(self.kind, given, allowed)
        return self


HEAD_OPTIONS: dict[str, tuple[str, ...]] = {
    "linear": (),
    "hidden": ("size",),
    "large": ("size",),
    "rnn": ("size", "cls"),
    "lstm": ("size", "cls"),
    "cosine": ("scale",),
}


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _as_word_or_list(value: tuple[str, ...]) -> object:
    return value[0] if len(value) == 1 else list(value)


def as_table(value: object) -> object:
    """A word alone is a choice without options."""
    return {"kind": value} if isinstance(value, str) else value


def as_word_or_table(value: Choice) -> object:
    """The inverse of `as_table`."""
    table: dict[str, Any] = value.model_dump(mode="json", exclude_none=True)
    return table["kind"] if list(table) == ["kind"] else table


Words = Annotated[tuple[str, ...], BeforeValidator(_as_list), PlainSerializer(_as_word_or_list)]
Adapter = Annotated[AdapterRecipe, BeforeValidator(as_table), PlainSerializer(as_word_or_table)]
Head = Annotated[HeadRecipe, BeforeValidator(as_table), PlainSerializer(as_word_or_table)]

Tracker = Literal["tensorboard", "mlflow", "wandb"]
Trackers = Annotated[tuple[Tracker, ...], BeforeValidator(_as_list), PlainSerializer(_as_word_or_list)]
