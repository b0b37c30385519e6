"""What the recipe of a new task comes to beside the run that it is added to, and what of it is refused."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from polytask.choices import AdapterRecipe
from polytask.data.rows import label_names
from polytask.errors import RecipeError
from polytask.recipe import Recipe
from polytask.recipe_phases import PhaseRecipe
from polytask.recipe_tasks import TaskRecipe
from polytask.tasks import Task
from polytask.update_choices import MemoryRecipe

Mode = Literal["adapter", "gem", "agem", "replay", "naive"]
SHARED_KEYS = ("adapter", "precision", "dropout", "pairs", "threads")  # the run's where a recipe says nothing
OWN_WORDS = ("heads", "adapters")  # what `train` may say where the encoder stays as it is


def train_changes(recipe: Recipe, mode: Mode) -> list[str]:
    """Changes that train only what is new where mode 'adapter' is asked for and a phase does not say what."""
    if mode != "adapter":
        return []
    word = "heads" if recipe.adapter.kind == "none" else "adapters"
    return [
        f"phases.{number}.train={word}"
        for number, phase in enumerate(recipe.phases)
        if "train" not in phase.model_fields_set
    ]


def merge_recipes(
    old: Recipe, new: Recipe, mode: Mode, known: Mapping[str, Task], adapters_on: bool
) -> Recipe:
    """The recipe of the run that has all tasks: the old ones as they are, and the new ones' phases."""
    tasks = {name: _pinned(old, name, task) for name, task in known.items()}
    phases = tuple(_phase(phase, tuple(new.tasks), mode, adapters_on) for phase in new.phases)
    merged = new.changed(
        encoder=old.encoder, max_length=old.max_length, tasks={**tasks, **new.tasks}, phases=phases
    )
    return merged if "adapter" in new.model_fields_set else merged.changed(adapter=old.adapter)


def check_addition(old: Recipe, new: Recipe, mode: Mode, known: Mapping[str, Task], run: Path) -> None:
    """Raise one RecipeError with everything that keeps tasks from being added to a run."""
    wrong = []
    said = new.model_fields_set
    for key in ("encoder", "max_length"):
        mine, theirs = getattr(old, key), getattr(new, key)
        if key in said and mine != theirs:
            wrong.append(f"{key} should be that of {run}, {mine!r}, or be left out. Found {theirs!r}.")
    wrong.extend(_check_adapter(old.adapter, new.adapter, run) if "adapter" in said else ())
    wrong.extend(_taken(name, new.tasks[name], known[name], run) for name in new.tasks if name in known)
    for number, phase in enumerate(new.phases):
        wrong.extend(f"phases.{number}.{line}" for line in _check_phase(phase, mode))
    if wrong:
        raise RecipeError("\n".join(wrong))


def _check_adapter(mine: AdapterRecipe, theirs: AdapterRecipe, run: Path) -> Sequence[str]:
    if mine == theirs:
        return ()
    if mine.kind != "none":
        return (f"adapter should be that of {run}, {mine.kind!r}, or be left out. Found {theirs.kind!r}.",)
    if theirs.flavour not in (None, "zero"):
        return (
            f"adapter.flavour should be 'zero' where {run} has no task-specific layers: its tasks get layers "
            f"too, which must change nothing. Found {theirs.flavour!r}.",
        )
    return ()


def _taken(name: str, written: TaskRecipe, task: Task, run: Path) -> str:
    names = label_names(written)
    labels = tuple(dict.fromkeys(names.values())) if names is not None else None
    clash = ""
    if task.kind != written.kind:
        clash = f", a {task.kind}"
    elif labels is not None and labels != task.labels:
        clash = f", whose labels are {', '.join(task.labels)} and not {', '.join(labels)}"
    return f"tasks.{name}: {run} has a task {name!r} already{clash}. Give the new one another name."


def _check_phase(phase: PhaseRecipe, mode: Mode) -> Sequence[str]:
    wrong = []
    if mode == "adapter" and "train" in phase.model_fields_set and phase.train[0] not in OWN_WORDS:
        wrong.append(
            f"train should be 'heads' or 'adapters', since --mode adapter leaves the encoder as it is. "
            f"Found {', '.join(phase.train)}."
        )
    if phase.memory.rehearses and phase.memory.kind != mode:
        wrong.append(f"memory is {phase.memory.kind!r}, which does not go with --mode {mode}.")
    return wrong


def _phase(phase: PhaseRecipe, tasks: tuple[str, ...], mode: Mode, adapters_on: bool) -> PhaseRecipe:
    changes: dict[str, object] = {"tasks": phase.tasks or tasks, "adapters": adapters_on}
    if mode in ("gem", "agem", "replay") and not phase.memory.rehearses:
        changes["memory"] = MemoryRecipe.model_validate({"kind": mode})
    return phase.model_copy(update=changes)


def _pinned(old: Recipe, name: str, task: Task) -> TaskRecipe:
    """An old task as its run read it; files that are gone are not looked for again."""
    written = old.tasks[name]
    kept = {split: path for split in ("dev", "test") if (path := getattr(written, split)) is not None}
    gone = {split: None for split, path in kept.items() if not Path(path).is_file()}
    if old.train_on_dev:  # its dev rows would flatter it
        gone["dev"] = None
    return written.model_copy(
        update={"pairs": task.pairs, "bad_rows": written.bad_rows or old.bad_rows, **gone}
    )
