"""Sets on the hub: fetched by name and revision, checked, and kept as one Parquet file a split."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from polytask.data.cache import file_hash
from polytask.data.columns import keep_columns, read_tables, split_off_dev, write_tables
from polytask.data.hub_files import files_of_splits
from polytask.data.kept import Kept, keep, kept_folder, read_kept
from polytask.data.known_set import HubSource, KnownSet
from polytask.errors import DataError
from polytask.hub import PREFIX, HubFile, HubName, fetch_snapshot, list_files, parse_name

CARD = "README.md"
CONVERTED = "refs/convert/parquet"  # where the hub itself keeps Parquet copies of sets in other forms
OURS = {"validation": "dev"}  # what the hub calls a split -> what a recipe does

Report = Callable[[str], None]
Splits = Mapping[str, list[Path]]


@dataclass(frozen=True)
class HubSet:
    """`hub:owner/name@revision:config:split`; all but the name may be left out."""

    name: HubName
    config: str | None = None
    split: str | None = None

    @property
    def key(self) -> str:
        """A folder's name for the set, whichever split of it is meant."""
        words = f"hub-{self.name}-{self.config or 'default'}"
        return re.sub(r"[^A-Za-z0-9._-]+", "-", words)


def parse_hub_set(value: str) -> HubSet:
    """The set that a recipe names with `hub:`."""
    name, *more = value.removeprefix(PREFIX).split(":")
    found = parse_name(name)
    if found is None or len(more) > 2:
        raise DataError(
            f"a set on the hub should be hub:owner/name:config or hub:owner/name@revision:config:split. "
            f"Found {value!r}."
        )
    return HubSet(found, *(word or None for word in more))


def fetch_hub_set(wanted: HubSet, report: Report, again: bool = False) -> tuple[Path, Kept]:
    """The folder of any set on the hub, all its columns kept; fetched unless it is there."""
    folder = kept_folder(wanted.key)
    kept = None if again else read_kept(folder)
    if kept is None:
        commit, splits = _download(wanted.name, wanted.config, report)
        ours = {OURS.get(split, split): paths for split, paths in splits.items()}
        kept = keep(folder, partial(Kept, "", str(wanted.name), commit), partial(_write_all, ours))
        report(_told(f"{PREFIX}{wanted.name}", kept, folder))
    return folder, kept


def fetch_known_set(name: str, known: KnownSet, report: Report, again: bool = False) -> tuple[Path, Kept]:
    """The folder of a named set that is on the hub, with its id, texts and label."""
    assert known.hub is not None
    folder = hub_folder(name)
    kept = None if again else read_kept(folder)
    if kept is None:
        source = HubName(known.hub.name, known.hub.revision)
        commit, splits = _download(source, known.hub.config, report)
        missing = [split for split in known.hub.splits.values() if split not in splits]
        if missing and not known.hub.pinned:
            raise DataError(
                f"{name}: {source} has no split {missing[0]!r} any more; it has {', '.join(splits)}."
            )
        kept = keep(folder, partial(Kept, name, str(source), commit), partial(_write_known, known, splits))
        report(_told(name, kept, folder))
    return folder, kept


def hub_folder(name: str) -> Path:
    """Where a named set on the hub lies once fetched."""
    return kept_folder(name.replace("/", "-"))


def _told(name: str, kept: Kept, folder: Path) -> str:
    counts = ", ".join(f"{split} {rows:,}" for split, rows in kept.rows.items())
    return f"{name}: {counts} rows of {kept.origin} at {kept.revision[:12]} in {folder}"


def _download(name: HubName, config: str | None, report: Report) -> tuple[str, dict[str, list[Path]]]:
    """The commit that was fetched, and the files of each split."""
    commit, files = list_files(name, "dataset")
    splits = _choose(name, commit, files, config)
    if not splits and name.revision is None:
        name = HubName(name.owner_name, CONVERTED)
        commit, files = list_files(name, "dataset")
        splits = _choose(name, commit, files, config)
    if not splits:
        raise DataError(f"{name}: has no Parquet, JSON Lines, CSV or TSV files that are named after splits.")
    paths = [path for of_split in splits.values() for path in of_split]
    report(f"fetching {name}, {len(paths)} files")
    folder = fetch_snapshot(HubName(name.owner_name, commit), paths, "dataset")
    sums = {file.path: file.sha256 for file in files if file.sha256 is not None}
    for path in paths:
        if path in sums and file_hash(folder / path) != sums[path]:
            (folder / path).resolve().unlink(missing_ok=True)  # so that the next try fetches it anew
            raise DataError(f"{name}: the SHA-256 of {path} is not the one that the hub lists; try again.")
    return commit, {split: [folder / path for path in of_split] for split, of_split in splits.items()}


def _choose(name: HubName, commit: str, files: list[HubFile], config: str | None) -> dict[str, list[str]]:
    paths = [file.path for file in files]
    card: dict[str, Any] = {}
    if CARD in paths:
        from huggingface_hub.repocard import metadata_load

        folder = fetch_snapshot(HubName(name.owner_name, commit), [CARD], "dataset")
        try:
            card = metadata_load(folder / CARD) or {}
        except Exception:  # a card whose head is not YAML says nothing of the files
            card = {}
    return files_of_splits(paths, card, config, str(name))


def _write_all(splits: Splits, work: Path) -> dict[str, int]:
    return {
        split: write_tables(read_tables(paths), work / f"{split}.parquet") for split, paths in splits.items()
    }


def _write_known(known: KnownSet, splits: Splits, work: Path) -> dict[str, int]:
    source: HubSource | None = known.hub
    assert source is not None
    rows = {}
    for split, file in known.files.items():
        own = source.splits.get(split)
        carved = own is None and split == "dev"
        paths = splits.get(source.splits["train"] if carved else own or "", [])
        if not paths:
            continue
        tables: Iterator[Any] = (keep_columns(table, known.text, known.label) for table in read_tables(paths))
        if "dev" not in source.splits and split in ("train", "dev"):
            tables = split_off_dev(tables, known.text, dev=carved)
        rows[split] = write_tables(tables, work / file)
    return rows
