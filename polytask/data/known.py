"""What a named set fills in of a recipe that says no more than its name, and which sets there are."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from polytask.data.catalogue import KNOWN_SETS
from polytask.data.known_set import SPLITS, KnownSet
from polytask.data.places import (
    DEMO,
    FOLDER_VARIABLE,
    Places,
    Report,
    is_set,
    known_name,
    locate,
    set_folder,
    splits_of,
)
from polytask.data.sources import Record, read_records
from polytask.errors import DataError, one_of
from polytask.hub import PREFIX
from polytask.recipe import Recipe
from polytask.recipe_preparation import JoinRecipe
from polytask.recipe_tasks import Kind, TaskRecipe

__all__ = ["FOLDER_VARIABLE", "KNOWN_SETS", "fetch_set", "known_sets", "resolve", "show_set"]


@dataclass(frozen=True)
class KnownSetInfo:
    """A named set as `polytask data list` shows it; a split whose file is not here has None rows."""

    name: str
    kind: Kind
    texts: int
    labels: tuple[str, ...]
    rows: dict[str, int | None] = field(hash=False)
    licence: str
    origin: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def resolve(recipe: Recipe, report: Report = None) -> Recipe:
    """The recipe with absolute paths, and with what a known set says wherever the user said nothing.

    A set that is not here yet is fetched. Every name that leads nowhere is reported at once.
    """
    problems: list[str] = []
    places = Places.of(recipe.base, recipe.data, report)
    tasks = {name: _resolve(name, written, places, problems) for name, written in recipe.tasks.items()}
    if problems:
        raise DataError("\n".join(problems))
    return recipe.changed(tasks=tasks, data=str(places.data) if recipe.data else None)


def _resolve(name: str, written: TaskRecipe, places: Places, problems: list[str]) -> TaskRecipe:
    named = {split: value for split in SPLITS if (value := getattr(written, split)) is not None}
    joined = [
        _resolve_join(f"tasks.{name}.join.{number}", join, places, problems)
        for number, join in enumerate(written.join)
    ]
    changes: dict[str, Any] = {"join": joined} if joined else {}
    try:
        own = splits_of(named["train"], places) if is_set(named["train"]) else ()
    except DataError:  # told below, as what is wrong with `train`
        own = ()
    named |= {split: named["train"] for split in own if split not in written.model_fields_set}
    for split, value in named.items():
        try:
            changes[split] = str(locate(value, split, places))
        except DataError as error:
            # Test rows are only predicted; a set's own may be missing, those that the user names may not.
            if split != "test" or "test" in written.model_fields_set:
                problems.append(f"tasks.{name}.{split}: {error}")
    for value in named.values():
        if (found := known_name(value)) is not None:
            changes |= _unsaid(KNOWN_SETS[found[0]], written)
            break
    # Checked again as a whole: what the set says has to go with what the user wrote, a metric for one.
    try:
        return TaskRecipe.model_validate({**written.model_dump(exclude_unset=True), **changes})
    except ValidationError as error:
        for detail in error.errors():
            text = str(detail.get("ctx", {}).get("error", detail["msg"]))
            problems.extend(f"tasks.{name}.{line}" for line in text.splitlines())
        return written


def _resolve_join(key: str, join: JoinRecipe, places: Places, problems: list[str]) -> dict[str, Any]:
    """A joined file as a table, with an absolute path and with what a known set says of itself."""
    said = join.model_dump(exclude_none=True)
    try:
        said["file"] = str(locate(join.file, "train", places))
    except DataError as error:
        problems.append(f"{key}: {error}")
    if (found := known_name(join.file)) is None:
        return said
    known = KNOWN_SETS[found[0]]
    own = {"text": list(known.text), "label": known.label, "labels": known.labels}
    return {**{name: value for name, value in own.items() if value is not None}, **said}


def _unsaid(known: KnownSet, written: TaskRecipe) -> dict[str, Any]:
    said = written.model_fields_set
    values: dict[str, Any] = {"text": known.text, "label": (known.label,), "kind": known.kind}
    # Labels, range and metric belong to the set's own label column and kind.
    if said.isdisjoint({"label", "kind"}) or (written.kind == known.kind and written.label == (known.label,)):
        values |= {"labels": known.labels, "range": known.range, "metric": known.metric}
        values["in_mean"] = known.in_mean
    return {key: value for key, value in values.items() if key not in said and value is not None}


def fetch_set(name: str, report: Report = None, again: bool = False) -> Path:
    """The folder of a set that can be downloaded: a known one or `hub:owner/name:config`."""
    places = Places.of(Path.cwd(), None, report)
    if name.startswith(PREFIX):
        from polytask.data.hub_sets import fetch_hub_set, parse_hub_set

        return fetch_hub_set(parse_hub_set(name), places.say, again)[0]
    if name in KNOWN_SETS and not name.startswith(DEMO) and KNOWN_SETS[name].hub is None:
        raise DataError(
            f"{name} cannot be downloaded: its files belong into the folder that {FOLDER_VARIABLE} names."
        )
    return set_folder(name, Places(places.base, None, report), again)


def known_sets() -> list[KnownSetInfo]:
    """Every named set, with the rows of the splits that are here; downloads nothing."""
    places = Places.of(Path.cwd())
    infos = []
    for name, known in KNOWN_SETS.items():
        labels = tuple((known.labels or {}).values())
        infos.append(
            KnownSetInfo(
                name,
                known.kind,
                len(known.text),
                labels,
                _rows(name, known, places),
                known.licence,
                known.origin,
            )
        )
    return infos


def show_set(name: str) -> dict[str, Any]:
    """All that is known of one set, as plain values."""
    if name not in KNOWN_SETS:
        raise DataError(f"a known set {one_of(KNOWN_SETS, name)}")
    known = KNOWN_SETS[name]
    shown: dict[str, Any] = {
        "name": name,
        "kind": known.kind,
        "text": list(known.text),
        "label": known.label,
        "labels": dict(known.labels) if known.labels else None,
        "range": list(known.range) if known.range else None,
        "metric": known.metric,
        "in_mean": known.in_mean,
        "rows": _rows(name, known, Places.of(Path.cwd())),
        "origin": known.origin,
        "licence": known.licence,
        "citation": known.citation,
    }
    if known.hub is not None:
        shown["revision"] = known.hub.revision
        shown["pinned"] = known.hub.pinned
        shown["dev_is_a_tenth_of_train"] = "dev" in known.files and "dev" not in known.hub.splits
    if known.local is not None:
        shown["local_folder"] = known.local.folder
    return {key: value for key, value in shown.items() if value is not None}


def _rows(name: str, known: KnownSet, places: Places) -> dict[str, int | None]:
    """The rows of each split of a set that is here, without fetching any."""
    if known.hub is not None:
        from polytask.data.hub_sets import hub_folder
        from polytask.data.kept import read_kept
        from polytask.data.local_sets import keep_local_set, local_folder

        own = local_folder(known, places.data)
        kept = keep_local_set(name, known, own)[1] if own is not None else read_kept(hub_folder(name))
        return {split: kept.rows.get(split) if kept is not None else None for split in known.files}
    folder = places.data
    if name.startswith(DEMO):
        from polytask.data.fetch import demo_folder, is_fetched

        folder = demo_folder(name) if is_fetched(name) else None
    return {split: _count(folder, file, known.text) for split, file in known.files.items()}


def _count(folder: Path | None, file: str, columns: tuple[str, ...]) -> int | None:
    if folder is None or not (folder / file).is_file():
        return None
    return sum(isinstance(row, Record) for row in read_records(folder / file, columns))
