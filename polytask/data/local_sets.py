"""Sets in the folders that they are handed out in: tab-separated files of GLUE, kept as Parquet."""

import hashlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from polytask.data.cache import file_hash
from polytask.data.columns import write_tables
from polytask.data.kept import Kept, keep, kept_folder, read_kept
from polytask.data.known_set import KnownSet, LocalLayout
from polytask.errors import DataError, did_you_mean

INSIDE = (".", "glue_data")  # where GLUE's own download puts the folders


def local_folder(known: KnownSet, data: Path | None) -> Path | None:
    """The folder with a set's own files, if the data folder has one."""
    if known.local is None or data is None:
        return None
    for place in INSIDE:
        folder = data / place / known.local.folder
        if any((folder / file).is_file() for file in known.local.files.values()):
            return folder
    return None


def keep_local_set(name: str, known: KnownSet, folder: Path) -> tuple[Path, Kept]:
    """A set's own files as one Parquet file a split, written anew whenever the files change."""
    layout = known.local
    assert layout is not None
    files = {split: folder / file for split, file in layout.files.items() if (folder / file).is_file()}
    hashes = "\n".join(f"{split} {file_hash(path)}" for split, path in files.items())
    revision = hashlib.sha256(hashes.encode()).hexdigest()
    target = kept_folder(f"{name.replace('/', '-')}-local-{revision[:16]}")
    kept = read_kept(target)
    if kept is None:
        fill = partial(_write, layout, known, files)
        kept = keep(target, partial(Kept, name, str(folder), revision), fill)
    return target, kept


def _write(layout: LocalLayout, known: KnownSet, files: Mapping[str, Path], work: Path) -> dict[str, int]:
    return {
        split: write_tables(_tables(path, layout, known, split), work / f"{split}.parquet")
        for split, path in files.items()
    }


def _tables(path: Path, layout: LocalLayout, known: KnownSet, split: str) -> Iterator[object]:
    import pyarrow as pa

    labelled = not split.startswith("test")
    names = [*known.text, *([known.label] if labelled else ())]
    columns: dict[str, list[object]] = {"id": [], **{name: [] for name in names}}
    lines = _lines(path)
    header = list(layout.header) if layout.header and labelled else next(lines, [])
    places = _places(path, header, layout, names)
    for number, cells in enumerate(lines):
        whole = len(cells) == len(header)  # of others no cell can be trusted: the row will be told as bad
        columns["id"].append(cells[places["id"]] if whole and "id" in places else str(number))
        for name in names:
            cell = cells[places[name]] if whole else None
            columns[name].append(layout.words.get(cell, cell) if name == known.label and cell else cell)
    if known.kind == "regression" and labelled:
        columns[known.label] = [_number(cell) for cell in columns[known.label]]
    yield pa.table({name: pa.array(cells, type=_type(name, known)) for name, cells in columns.items()})


def _type(name: str, known: KnownSet) -> object:
    import pyarrow as pa

    return pa.float64() if name == known.label and known.kind == "regression" else pa.string()


def _number(cell: object) -> float | None:
    try:
        return float(str(cell))
    except ValueError:
        return None


def _places(path: Path, header: list[str], layout: LocalLayout, names: list[str]) -> dict[str, int]:
    places = {}
    for name in ("id", *names):
        column = layout.columns[name]
        column = "index" if name == "id" and column not in header else column
        if column in header:
            places[name] = header.index(column)
        elif name != "id":
            near = did_you_mean(column, header, "; ")
            raise DataError(f"{path}: has no column {column!r}; its columns are {', '.join(header)}{near}")
    return places


def _lines(path: Path) -> Iterator[list[str]]:
    """The cells of each line; quotes in these files are characters of the sentences."""
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            for line in file:
                yield line.rstrip("\r\n").split("\t")
    except UnicodeDecodeError:
        raise DataError(f"{path}: is not UTF-8.") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
