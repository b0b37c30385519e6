"""What is known of a run: its folder's files, read as far as they are whole, with what is missing said."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from polytask.errors import UserError
from polytask.recipe import MAX_RECIPE_BYTES
from polytask.report.facts import Conflict, Done, Evaluation, Fact, Phase, Scores, Update

MAX_SCORES_BYTES = 10_000_000
MAX_EVENTS = 5_000_000  # lines of events.jsonl
MAX_KEPT = 200_000  # updates, and evaluations, held in memory
MAX_CONFLICTS = 3_000  # looks at the gradients, the first
MAX_LINE = 1_000_000  # characters of one event


@dataclass
class Run:
    """One training's results, and in plain words what is missing of them."""

    name: str
    folder: Path | None = None  # none for a run that is only planned
    recipe: str | None = None
    scores: Scores | None = None
    phases: list[Phase] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)
    done: Done | None = None
    missing: list[str] = field(default_factory=list)

    @property
    def tasks(self) -> list[str]:
        """Every task's name, in the order of the scores, else of the phases."""
        named = [*(self.scores.tasks if self.scores else ())]
        named += [task for phase in self.phases for task in phase.tasks]
        named += [task for evaluation in self.evaluations for task in evaluation.scores]
        return list(dict.fromkeys(named))

    @property
    def scheduled(self) -> list[str]:
        """Every task that the schedule has a share for, in its order."""
        shares = [each.share for phase in self.phases for each in phase.schedule]
        return list(dict.fromkeys(task for share in shares for task in share))


FILES = ("recipe.toml", "events.jsonl", "scores.json")
EVENTS: dict[str, type[Fact]] = {
    "phase": Phase,
    "update": Update,
    "evaluate": Evaluation,
    "conflict": Conflict,
    "done": Done,
}
AnyFact = TypeVar("AnyFact", bound=Fact)


def read_run(folder: Path) -> Run:
    """Read a run folder; at least one of its files has to be there."""
    if not any((folder / name).is_file() for name in FILES):
        raise UserError(f"{folder}: not a run folder. It should hold {', '.join(FILES)}; found none of them.")
    run = Run(name=folder.resolve().name, folder=folder)
    _read_recipe(folder / "recipe.toml", run)
    _read_events(folder / "events.jsonl", run)
    _read_scores(folder / "scores.json", run)
    return run


def _read_recipe(path: Path, run: Run) -> None:
    try:
        with path.open("rb") as file:
            run.recipe = file.read(MAX_RECIPE_BYTES).decode("utf-8", errors="replace")
    except OSError:
        run.missing.append("recipe.toml is not there: the settings of this run are not known.")


def _read_scores(path: Path, run: Run) -> None:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_SCORES_BYTES + 1)
    except OSError:
        run.missing.append(
            "scores.json is not there: training has not finished, so there are no final scores."
        )
        return
    values = _from_json(raw.decode("utf-8", errors="replace")) if len(raw) <= MAX_SCORES_BYTES else None
    run.scores = _as(Scores, values)
    if run.scores is None:
        run.missing.append("scores.json could not be read: the final scores are not known.")


def _read_events(path: Path, run: Run) -> None:
    unreadable: list[int] = []
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for number in range(1, MAX_EVENTS + 1):
                line = file.readline(MAX_LINE)
                if not line:
                    break
                if line.strip() and not _add_event(_from_json(line), run):
                    unreadable.append(number)
            else:
                run.missing.append(f"events.jsonl was read up to line {MAX_EVENTS:,} only.")
    except OSError:
        run.missing.append("events.jsonl is not there: the course of training is not known.")
        return
    if MAX_KEPT in (len(run.updates), len(run.evaluations)):
        run.missing.append(
            f"events.jsonl is long: curves show its first {MAX_KEPT:,} updates and evaluations."
        )
    _keep_latest(run)
    if unreadable:
        count = "a line" if len(unreadable) == 1 else f"{len(unreadable):,} lines"
        run.missing.append(
            f"events.jsonl has {count} that could not be read, the first is line {unreadable[0]}."
        )
    if run.done is None:
        run.missing.append("Training was interrupted or is still going on: this is the course so far.")


def _keep_latest(run: Run) -> None:
    """A resumed run writes again what it does again: of two events for one moment the later counts."""
    run.phases = sorted({phase.phase: phase for phase in run.phases}.values(), key=lambda each: each.phase)
    run.updates = sorted({each.update: each for each in run.updates}.values(), key=lambda each: each.update)
    run.conflicts = sorted(
        {each.update: each for each in run.conflicts}.values(), key=lambda each: each.update
    )
    latest = {each.update: each for each in run.evaluations}
    run.evaluations = sorted(latest.values(), key=lambda each: each.update)


def _add_event(values: Any, run: Run) -> bool:
    """Put an event in its place; False if it cannot be read. Other kinds of events are not for the report."""
    if not isinstance(values, dict) or not isinstance(values.get("event"), str):
        return False
    if values["event"] not in EVENTS:
        return True
    match _as(EVENTS[values["event"]], values):
        case Phase() as phase:
            run.phases.append(phase)
        case Update() as update:
            run.updates += [update] if len(run.updates) < MAX_KEPT else []
        case Evaluation() as evaluation:
            run.evaluations += [evaluation] if len(run.evaluations) < MAX_KEPT else []
        case Conflict() as conflict:
            run.conflicts += [conflict] if len(run.conflicts) < MAX_CONFLICTS else []
        case Done() as done:
            run.done = done
        case _:
            return False
    return True


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _as(fact: type[AnyFact], values: Any) -> AnyFact | None:
    try:
        return fact.model_validate(values)
    except ValidationError:
        return None
