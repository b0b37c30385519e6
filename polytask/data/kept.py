"""A fetched set's folder in the cache: its Parquet files, and a note of what and whence they are."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from polytask.data.cache import build_folder, cache_folder, file_hash

FORMAT = 1
META = "meta.json"


@dataclass(frozen=True)
class Kept:
    """What a folder holds: rows of each split, and whence; `name` is the known set, if it is one."""

    name: str
    origin: str  # a repository on the hub or a folder
    revision: str  # the commit, or the hash of the local files
    rows: dict[str, int]


def kept_folder(key: str) -> Path:
    """Where a set lies once fetched."""
    return cache_folder() / "known" / f"{key}-{FORMAT}"


def read_kept(folder: Path) -> Kept | None:
    """What a folder holds, or None if it is not there or not as it was written."""
    try:
        written = json.loads((folder / META).read_bytes())
        whole = all(file_hash(folder / file) == value for file, value in written["files"].items())
        return Kept(**written["kept"]) if whole else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def keep(
    folder: Path, kept: Callable[[Mapping[str, int]], Kept], fill: Callable[[Path], dict[str, int]]
) -> Kept:
    """Let `fill` write Parquet files and count each split's rows; all is there at once or nothing."""
    made: list[Kept] = []

    def write(work: Path) -> None:
        made.append(kept({split: rows for split, rows in fill(work).items() if rows}))
        files = {path.name: file_hash(path) for path in sorted(work.glob("*.parquet"))}
        (work / META).write_text(json.dumps({"files": files, "kept": asdict(made[0])}))

    build_folder(folder, write)
    return made[0]
