"""Which runs a comparison is made of; what cannot be compared is refused before anything is trained."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polytask.data.known import resolve
from polytask.data.prepare import check
from polytask.data.splits import CheckedTask
from polytask.errors import UserError, one_of
from polytask.experiments.identity import digest, file_digest, identify
from polytask.model.locate import EMBEDDED_NAME
from polytask.recipe import Recipe
from polytask.recipe_tasks import Kind, Metric
from polytask.report.read import read_run

FOLDER = "runs"
DEV_WORDS = {
    "rows": "dev rows",
    "kind": "kind",
    "metric": "metric",
    "labels": "labels",
    "label": "label column",
    "in_mean": "in_mean",
}


@dataclass(frozen=True)
class DevTask:
    """What a task's dev scores are made of; `seen` has to be equal for scores to be compared."""

    kind: Kind
    metric: Metric
    in_mean: bool
    seen: dict[str, Any]


@dataclass(frozen=True)
class Candidate:
    """A recipe of a comparison, resolved."""

    name: str
    recipe: Recipe
    tasks: dict[str, DevTask]


@dataclass(frozen=True)
class PlannedRun:
    """One recipe with one seed, and where its run lies."""

    candidate: str
    seed: int
    recipe: Recipe
    identity: dict[str, str]
    folder: Path

    @property
    def written(self) -> Path:
        """The recipe that the run is started with."""
        return self.folder.with_suffix(".toml")

    @property
    def log(self) -> Path:
        """What the run says."""
        return self.folder.with_suffix(".log")

    @property
    def note(self) -> Path:
        """What the run is recognised by, and how long it has taken."""
        return self.folder.with_suffix(".json")

    def told(self) -> str:
        """The run as people are told of it."""
        return f"{self.candidate} seed {self.seed}"


def load_candidates(recipes: Sequence[Recipe | str | Path]) -> list[Candidate]:
    """Read and check all recipes with their files, and refuse those that cannot be compared."""
    loaded = [recipe if isinstance(recipe, Recipe) else Recipe.load(recipe) for recipe in recipes]
    names = [recipe.name for recipe in loaded]
    if not loaded:
        raise UserError("compare needs at least one recipe.")
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"Two recipes are called {name!r}: results are named after the recipes' files.")
    candidates = []
    for recipe in loaded:
        if recipe.train_on_dev:
            raise UserError(f"{recipe.name}: train_on_dev is true, so that it has no dev scores to compare.")
        candidates.append(_candidate(recipe))
    return candidates


def find_baseline(candidates: Sequence[Candidate], name: str | None) -> Candidate:
    """The recipe that the others are tested against, once all were found to score the same rows."""
    names = [candidate.name for candidate in candidates]
    if name is not None and name not in names:
        raise UserError(f"--baseline {one_of(names, name)}")
    baseline = candidates[names.index(name) if name is not None else 0]
    wrong = [line for candidate in candidates for line in _differences(candidate, baseline)]
    if wrong:
        raise UserError("\n".join(wrong))
    return baseline


def plan_runs(
    candidates: Sequence[Candidate], seeds: Sequence[int], out: Path, any_code: bool = False
) -> list[PlannedRun]:
    """Every run, all recipes with the first seed first, so that a comparison cut short is a fair one."""
    planned = []
    for seed in seeds:
        for candidate in candidates:
            recipe = candidate.recipe.changed(seed=seed)
            identity = identify(recipe)
            folder = out / FOLDER / candidate.name / f"seed{seed}-{digest(identity)[:12]}"
            earlier = _of_other_code(folder.parent, seed, identity) if any_code else None
            planned.append(PlannedRun(candidate.name, seed, recipe, identity, earlier or folder))
    return planned


def is_finished(folder: Path) -> bool:
    """Whether a run ended and has scores."""
    if not (folder / "scores.json").is_file():
        return False
    run = read_run(folder)
    return run.done is not None and run.scores is not None


def _of_other_code(parent: Path, seed: int, identity: dict[str, str]) -> Path | None:
    """A finished run of the same recipe and data, whatever code trained it."""
    for note in sorted(parent.glob(f"seed{seed}-*.json")):
        found = json.loads(note.read_bytes())["identity"]
        same = all(found[key] == identity[key] for key in ("recipe", "data"))
        if same and is_finished(note.with_suffix("")):
            return note.with_suffix("")
    return None


def _candidate(recipe: Recipe) -> Candidate:
    try:
        resolved = resolve(recipe)
        checked = check(resolved)
    except UserError as error:
        raise type(error)(f"{recipe.name}: {error}") from None
    folder = recipe.base / recipe.encoder
    if recipe.encoder != EMBEDDED_NAME and folder.is_dir():  # the run starts from a file elsewhere
        resolved = resolved.changed(encoder=str(folder.resolve()))
    tasks = {name: dev for name, item in checked.items() if (dev := _dev_task(item)) is not None}
    if not tasks:
        raise UserError(f"{recipe.name}: no task has dev rows, so that there is nothing to compare.")
    return Candidate(recipe.name, resolved, tasks)


def _dev_task(checked: CheckedTask) -> DevTask | None:
    split = next((split for split in checked.splits if split.name == "dev"), None)
    if split is None:
        return None
    task = checked.task
    seen = {
        "rows": [split.num_rows, *(file_digest(part.file.path) for part in split.parts)],
        "kind": task.kind,
        "metric": task.metric,
        # The f1 of two labels is the second one's; otherwise their order, which train settles, means nothing.
        "labels": list(task.labels) if task.metric == "f1" else sorted(task.labels),
        "label": list(checked.written.label),
        "in_mean": checked.written.in_mean,
    }
    return DevTask(task.kind, task.metric, checked.written.in_mean, seen)


def _differences(candidate: Candidate, baseline: Candidate) -> list[str]:
    """Why the scores of two recipes cannot be compared."""
    found, wanted = candidate.tasks, baseline.tasks
    if set(found) != set(wanted):
        return [
            f"{candidate.name} cannot be compared with {baseline.name}: it has scores of "
            f"{', '.join(found)}, and {baseline.name} of {', '.join(wanted)}."
        ]
    return [
        f"{candidate.name} cannot be compared with {baseline.name}: tasks.{name} has other "
        f"{' and other '.join(others)}."
        for name in wanted
        if (
            others := [
                word for key, word in DEV_WORDS.items() if found[name].seen[key] != wanted[name].seen[key]
            ]
        )
    ]
