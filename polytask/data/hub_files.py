"""Which files of a data set on the hub are which split of which configuration."""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Any

from polytask.data.columns import ENDINGS
from polytask.errors import DataError, one_of

DEFAULT = "default"
SPLIT_WORDS = {"train": "train", "training": "train", "test": "test"} | dict.fromkeys(
    ("validation", "valid", "val", "dev", "development"), "validation"
)


def files_of_splits(
    paths: Sequence[str], card: Mapping[str, Any], config: str | None, name: str
) -> dict[str, list[str]]:
    """Split -> files, by the set's card or, where that is silent, by the files' names."""
    tables = sorted(path for path in paths if _is_table(path))
    written = {str(item.get("config_name", DEFAULT)): item for item in card.get("configs") or ()}
    if written and (listed := _by_card(tables, written, config, name)):
        return listed
    found = _by_names(tables)
    if not found:
        return {}
    if config is None and len(found) > 1 and DEFAULT not in found:
        raise DataError(
            f"{name} has several configurations: name one of {', '.join(sorted(found))} after a colon."
        )
    chosen = config or (DEFAULT if DEFAULT in found else next(iter(found)))
    if chosen not in found:
        raise DataError(f"the configuration of {name} {one_of(sorted(found), chosen)}")
    return found[chosen]


def _is_table(path: str) -> bool:
    return PurePosixPath(path.removesuffix(".gz")).suffix in ENDINGS and not path.startswith(
        (".", "dataset_info")
    )


def _by_card(
    tables: Sequence[str], written: Mapping[str, Any], config: str | None, name: str
) -> dict[str, list[str]]:
    if config is None and len(written) > 1:
        default = [key for key, item in written.items() if item.get("default") or key == DEFAULT]
        if not default:
            raise DataError(
                f"{name} has several configurations: name one of {', '.join(sorted(written))} after a colon."
            )
        config = default[0]
    chosen = config or next(iter(written))
    if chosen not in written and chosen == DEFAULT and len(written) == 1:
        chosen = next(iter(written))
    if chosen not in written:
        raise DataError(f"the configuration of {name} {one_of(sorted(written), chosen)}")
    listed = written[chosen].get("data_files") or ()
    splits: dict[str, list[str]] = {}
    for item in [listed] if isinstance(listed, str | dict) else listed:
        pairs = {"split": "train", "path": item} if isinstance(item, str) else item
        patterns = pairs.get("path", ())
        patterns = [patterns] if isinstance(patterns, str) else patterns
        matched = [path for path in tables if any(fnmatch(path, str(pattern)) for pattern in patterns)]
        if matched:
            splits[str(pairs.get("split", "train"))] = matched
    return splits


def _by_names(tables: Sequence[str]) -> dict[str, dict[str, list[str]]]:
    """Configuration -> split -> files, from names such as `CONFIG/train-00000-of-00002.parquet`."""
    found: dict[str, dict[str, list[str]]] = {}
    for path in tables:
        parts = PurePosixPath(path).parts
        split = _split_of(parts[-1].split(".")[0])
        folders = list(parts[:-1])
        if split is None and folders:
            split = _split_of(folders.pop())
        if split is None:
            continue
        config = "/".join(folder for folder in folders if folder != "data") or DEFAULT
        found.setdefault(config, {}).setdefault(split, []).append(path)
    return found


def _split_of(word: str) -> str | None:
    stem = re.sub(r"-\d+-of-\d+.*$", "", word.lower())
    if stem in SPLIT_WORDS:
        return SPLIT_WORDS[stem]
    begins = re.match(r"(train|validation|test)_(\w+)$", stem)  # such as validation_matched
    return stem if begins else None
