"""What a user writes: the schema of a recipe, TOML in and out, with every mistake named at once."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from polytask.changes import apply_changes
from polytask.choices import (
    Adapter,
    AdapterRecipe,
    Combine,
    CombineRecipe,
    Head,
    HeadRecipe,
    Sampler,
    SamplerRecipe,
    Table,
)
from polytask.errors import RecipeError, one_of
from polytask.explain import explain

MAX_RECIPE_BYTES = 1_000_000
TASK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")  # task names become file names in the run folder

Kind = Literal["classification", "regression", "multilabel"]
Metric = Literal["accuracy", "f1", "f1_macro", "matthews", "pearson", "spearman", "mse"]
Pairs = Literal["joined", "separate"]
Pooling = Literal["cls", "pooler", "mean", "attention"]
BadRows = Literal["stop", "skip"]

DEFAULT_METRIC: dict[str, Metric] = {
    "classification": "accuracy",
    "regression": "pearson",
    "multilabel": "f1_macro",
}
METRICS_OF_KIND: dict[str, tuple[Metric, ...]] = {
    "classification": ("accuracy", "f1", "f1_macro", "matthews"),
    "regression": ("pearson", "spearman", "mse"),
    "multilabel": ("f1_macro", "f1", "accuracy"),
}
TRAIN_WORD = re.compile(r"all|heads|adapters|top-[1-9][0-9]{0,2}")
DEFAULT_LR = {"heads": 2e-3}  # nothing pretrained moves, so a high rate is safe
FINE_TUNING_LR = 5e-5


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _as_word_or_list(value: tuple[str, ...]) -> object:
    return value[0] if len(value) == 1 else list(value)


def _as_strings(value: object) -> object:
    """Labels may be written as numbers; a list is read as names, a table as `found in the file` -> name."""
    if isinstance(value, list):
        return {str(item): str(item) for item in value}
    if isinstance(value, dict):
        return {str(found): str(name) for found, name in value.items()}
    return value


Words = Annotated[tuple[str, ...], BeforeValidator(_as_list), PlainSerializer(_as_word_or_list)]


class TaskRecipe(Table):
    """One task: its files, its columns and how it is scored."""

    train: str = Field(min_length=1)
    dev: str | None = None
    test: str | None = None
    kind: Kind = "classification"
    text: Words = Field(default=("text",), min_length=1, max_length=2)
    label: Words = Field(default=("label",), min_length=1)
    id: str = "id"
    labels: Annotated[dict[str, str] | None, BeforeValidator(_as_strings)] = None
    range: tuple[float, float] | None = None
    pairs: Pairs | None = None
    head: Head = HeadRecipe()
    pooling: Pooling | None = None
    dropout: float = Field(default=0.1, ge=0, lt=1)
    metric: Metric | None = None
    bad_rows: BadRows | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        wrong = []
        if self.metric is not None and self.metric not in METRICS_OF_KIND[self.kind]:
            wrong.append(f"metric {one_of(METRICS_OF_KIND[self.kind], self.metric)} (kind is {self.kind!r})")
        if self.kind == "regression" and self.labels is not None:
            wrong.append(
                "labels belong to classification and multilabel tasks. Found them with kind 'regression'."
            )
        if self.kind != "regression" and self.range is not None:
            wrong.append(f"range belongs to regression tasks. Found it with kind {self.kind!r}.")
        if self.range is not None and self.range[0] >= self.range[1]:
            wrong.append(f"range should be two numbers, the smaller first. Found {list(self.range)}.")
        if self.kind != "multilabel" and len(self.label) > 1:
            wrong.append(f"label should be one column unless kind is 'multilabel'. Found {list(self.label)}.")
        if self.labels is not None and len(set(self.labels.values())) < 2 and self.kind == "classification":
            wrong.append(f"labels should name at least two classes. Found {list(self.labels.values())}.")
        if wrong:
            raise ValueError("\n".join(wrong))
        return self


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


class Recipe(Table):
    """Everything that decides a training run."""

    encoder: str = Field(default="minilm", min_length=1)
    max_length: int = Field(default=128, ge=4, le=8192)
    pairs: Pairs = "joined"
    seed: int = Field(default=1, ge=0, lt=2**63)
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: int | None = Field(default=None, ge=1, le=1024)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    bad_rows: BadRows = "stop"
    adapter: Adapter = AdapterRecipe()
    tasks: dict[str, TaskRecipe] = Field(min_length=1)
    phases: tuple[PhaseRecipe, ...] = Field(
        default_factory=lambda: (PhaseRecipe.model_validate({}),), min_length=1
    )
    _base: Path = PrivateAttr(default_factory=Path.cwd)
    _name: str = PrivateAttr("run")

    @property
    def base(self) -> Path:
        """The folder that relative paths in the recipe start from."""
        return self._base

    @property
    def name(self) -> str:
        """What runs are called after: the recipe's file, without its ending."""
        return self._name

    @classmethod
    def load(cls, path: str | Path, changes: Iterable[str] = ()) -> "Recipe":
        """Read a TOML recipe; `changes` are `key.path=value` overrides as given to `--set`."""
        path = Path(path)
        try:
            raw = path.read_bytes()[: MAX_RECIPE_BYTES + 1]
            if len(raw) > MAX_RECIPE_BYTES:
                raise RecipeError(f"{path}: a recipe should be at most {MAX_RECIPE_BYTES:,} bytes.")
            values = tomllib.loads(raw.decode("utf-8-sig"))
        except OSError as error:
            raise RecipeError(f"{path}: cannot be read as a recipe ({error.strerror}).") from None
        except UnicodeDecodeError as error:
            raise RecipeError(f"{path}: a recipe should be UTF-8 text. Byte {error.start} is not.") from None
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise RecipeError(f"{path}: not valid TOML: {error}.") from None
        recipe = cls.from_dict(values, base=path.resolve().parent, changes=changes)
        recipe._name = path.stem
        return recipe

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], base: str | Path | None = None, changes: Iterable[str] = ()
    ) -> "Recipe":
        """Check a recipe given as nested dicts; relative paths start from `base`."""
        changed = apply_changes(dict(values), changes)
        try:
            recipe = cls.model_validate(changed)
        except ValidationError as error:
            raise RecipeError("\n".join(explain(error, _keys_at))) from None
        recipe._base = Path(base) if base is not None else Path.cwd()
        recipe._check_names()
        return recipe._with_poolings()

    def to_toml(self) -> str:
        """The recipe with every default filled in."""
        import tomli_w

        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))

    def changed(self, **values: Any) -> "Recipe":
        """A copy with top-level values replaced, keeping the folder that paths start from."""
        return self.model_copy(update=values)

    def _with_poolings(self) -> "Recipe":
        """Fill in each task's pooling: attention where the encoder stays frozen, the mean elsewhere."""
        frozen = all(phase.train == ("heads",) for phase in self.phases)
        pooling = "attention" if frozen else "mean"
        tasks = {
            name: task.model_copy(update={"pooling": task.pooling or pooling})
            for name, task in self.tasks.items()
        }
        return self.changed(tasks=tasks)

    def _check_names(self) -> None:
        wrong = [
            f"tasks.{name!r}: a task name should be letters, digits, '_' and '-', at most 64. Found {name!r}."
            for name in self.tasks
            if not TASK_NAME.fullmatch(name)
        ]
        for number, phase in enumerate(self.phases):
            for name in phase.tasks or ():
                if name not in self.tasks:
                    wrong.append(f"phases.{number}.tasks {one_of(self.tasks, name)}")
            if len(set(phase.tasks or ())) < len(phase.tasks or ()):
                wrong.append(
                    f"phases.{number}.tasks should name each task once. Found {list(phase.tasks or ())}."
                )
            if phase.train == ("adapters",) and self.adapter.kind == "none":
                wrong.append(
                    f"phases.{number}.train is 'adapters', but adapter.kind is 'none': nothing to train."
                )
            if phase.train == ("adapters",) and not phase.adapters:
                wrong.append(f"phases.{number}.train is 'adapters', but phases.{number}.adapters is false.")
        if wrong:
            raise RecipeError("\n".join(wrong))


def _keys_at(location: tuple[int | str, ...]) -> list[str]:
    """The keys a recipe allows at a place, for suggesting the nearest."""
    tables: dict[str, type[Table]] = {
        "tasks": TaskRecipe,
        "phases": PhaseRecipe,
        "sampler": SamplerRecipe,
        "combine": CombineRecipe,
        "adapter": AdapterRecipe,
        "head": HeadRecipe,
    }
    named = [part for part in location[:-1] if part in tables]
    return list((tables[str(named[-1])] if named else Recipe).model_fields)
