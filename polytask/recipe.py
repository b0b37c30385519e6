"""What a user writes: the schema of a recipe, TOML in and out, with every mistake named at once."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PrivateAttr, ValidationError

from polytask.changes import apply_changes
from polytask.choices import Adapter, AdapterRecipe, HeadRecipe, Table, Trackers
from polytask.errors import RecipeError, one_of
from polytask.explain import explain
from polytask.recipe_phases import PhaseRecipe
from polytask.recipe_preparation import AugmentRecipe, JoinRecipe
from polytask.recipe_tasks import TASK_NAME, BadRows, Pairs, TaskRecipe
from polytask.update_choices import TABLES, check_task_names

MAX_RECIPE_BYTES = 1_000_000


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
    data: str | None = Field(default=None, min_length=1)  # a folder with known sets in their own layout
    drop_longest: float = Field(default=0.0, ge=0, lt=1)  # share of each training file's rows
    train_on_dev: bool = False  # for a final run: dev rows are training rows, and nothing is scored
    adapter: Adapter = AdapterRecipe()
    keep: Literal["best", "last"] = "best"  # which weights become the model: best on dev, or the last
    checkpoint_seconds: float = Field(default=300.0, ge=0)  # of training between two checkpoints
    checkpoints: int = Field(default=2, ge=1, le=1000)  # how many are kept
    tracking: Trackers = ()  # what follows the training besides events.jsonl
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
    def load(
        cls, path: str | Path, changes: Iterable[str] = (), unsaid: Mapping[str, Any] | None = None
    ) -> "Recipe":
        """Read a TOML recipe; `changes` are `key.path=value` overrides as given to `--set`.

        `unsaid` are top-level values for where the file has none.
        """
        path = Path(path)
        try:
            raw = path.read_bytes()[: MAX_RECIPE_BYTES + 1]
            if len(raw) > MAX_RECIPE_BYTES:
                raise RecipeError(f"{path}: a recipe should be at most {MAX_RECIPE_BYTES:,} bytes.")
            values = {**(unsaid or {}), **tomllib.loads(raw.decode("utf-8-sig"))}
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
            wrong.extend(
                f"phases.{number}.{line}"
                for line in check_task_names(phase, phase.tasks or tuple(self.tasks))
            )
            if self.train_on_dev:
                wrong.extend(f"phases.{number}.{line}" for line in _needs_dev(phase))
            if phase.train == ("adapters",) and self.adapter.kind == "none":
                wrong.append(
                    f"phases.{number}.train is 'adapters', but adapter.kind is 'none': nothing to train."
                )
            if phase.train == ("adapters",) and not phase.adapters:
                wrong.append(f"phases.{number}.train is 'adapters', but phases.{number}.adapters is false.")
        if wrong:
            raise RecipeError("\n".join(wrong))


def _needs_dev(phase: PhaseRecipe) -> Iterable[str]:
    """What of a phase cannot be had where the dev rows are trained on."""
    reason = "needs dev scores, but train_on_dev is true."
    if phase.patience > 0:
        yield f"patience {reason}"
    if phase.begin == "best":
        yield f"begin = 'best' {reason}"


def _keys_at(location: tuple[int | str, ...]) -> list[str]:
    """The keys a recipe allows at a place, for suggesting the nearest."""
    tables: dict[str, type[Table]] = {
        "tasks": TaskRecipe,
        "phases": PhaseRecipe,
        **TABLES,
        "adapter": AdapterRecipe,
        "head": HeadRecipe,
        "join": JoinRecipe,
        "augment": AugmentRecipe,
    }
    named = [part for part in location[:-1] if part in tables]
    return list((tables[str(named[-1])] if named else Recipe).model_fields)
