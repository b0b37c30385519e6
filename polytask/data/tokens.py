"""The token table: the tokenised rows of one file as columns, in memory or memory-mapped."""

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, final

import numpy as np
import numpy.typing as npt

from polytask.data.cache import build_folder
from polytask.data.rows import Label, Row
from polytask.data.tokenizer import MAX_TOKENS, Ids, Tokenizer
from polytask.recipe_tasks import Kind

FORMAT = (1, MAX_TOKENS)
ROWS_PER_CHUNK = 4096
CHARACTERS_PER_CHUNK = 2_000_000  # bounds the tokenizer's working memory where texts are long
META = "meta.json"
COLUMNS = ("ids", "ends", "targets", "lines", "names", "name_ends", "fingerprints", "name_prints")
TARGET_TYPES: dict[Kind, str] = {"classification": "int64", "regression": "float32", "multilabel": "uint8"}

Array = npt.NDArray[Any]


@final
class TokenTable:
    """Rows of one or two texts as token ids without specials, with targets, lines and ids; read-only."""

    def __init__(self, columns: Mapping[str, Array], texts: int) -> None:
        self._columns = dict(columns)
        self.texts = texts
        self.num_rows = len(columns["lines"])
        ends = columns["ends"]
        assert len(ends) == self.num_rows * texts
        self._lengths = np.diff(ends, prepend=0).astype(np.int32).reshape(self.num_rows, texts)

    @classmethod
    def open(cls, folder: Path) -> "TokenTable | None":
        """The memory-mapped table in a folder; None if it is absent, half-written or damaged."""
        try:
            meta = json.loads((folder / META).read_bytes())
            if meta["format"] != list(FORMAT):
                return None
            columns = {name: _map(folder / name, about) for name, about in meta["columns"].items()}
            table = cls(columns, int(meta["texts"]))
            table._check()
        except (OSError, ValueError, KeyError, TypeError, AttributeError, AssertionError):
            return None
        return table

    def _check(self) -> None:
        assert set(self._columns) >= set(COLUMNS) - {"targets"}
        ids, ends, names = self._columns["ids"], self._columns["ends"], self._columns["name_ends"]
        assert self.num_rows == 0 or int(ends[-1]) == len(ids)
        assert bool((self._lengths >= 0).all())
        assert len(names) == len(self.fingerprints) == len(self.name_prints) == self.num_rows
        assert self.targets is None or len(self.targets) == self.num_rows

    @property
    def targets(self) -> Array | None:
        """int64 [N] classes, float32 [N] values or uint8 [N, C] flags; None without labels."""
        return self._columns.get("targets")

    @property
    def lines(self) -> Array:
        """int64 [N]: where each row stands in its file."""
        return self._columns["lines"]

    @property
    def fingerprints(self) -> Array:
        """uint64 [N]: equal for rows with equal texts, blanks and case aside."""
        return self._columns["fingerprints"]

    @property
    def name_prints(self) -> Array:
        """uint64 [N]: equal for rows with equal ids."""
        return self._columns["name_prints"]

    def lengths(self) -> npt.NDArray[np.int32]:
        """int32 [N, T]: the tokens of each text, without specials."""
        return self._lengths

    def text_ids(self, row: int, text: int) -> Array:
        """The ids of one text."""
        place = row * self.texts + text
        end = int(self._columns["ends"][place])
        return self._columns["ids"][end - int(self._lengths[row, text]) : end]

    def row_id(self, row: int) -> str:
        """The id that the row has in its file."""
        ends = self._columns["name_ends"]
        start = int(ends[row - 1]) if row else 0
        return bytes(self._columns["names"][start : int(ends[row])]).decode("utf-8", "replace")


def _map(path: Path, about: Mapping[str, Any]) -> Array:
    """One column's file, refused (ValueError) unless its size and checksum are those that were written."""
    dtype, shape = np.dtype(about["dtype"]), tuple(about["shape"])
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if path.name not in COLUMNS or path.stat().st_size != size:
        raise ValueError(path.name)
    if size == 0:
        return np.empty(shape, dtype)
    column = np.asarray(np.memmap(path, dtype, "r", shape=shape))  # slices of a plain array are cheaper
    if zlib.crc32(column.data) != about["crc32"]:
        raise ValueError(path.name)
    return column


def table_from_texts(texts: Sequence[tuple[str, ...]], tokenizer: Tokenizer) -> TokenTable:
    """A table in memory, without labels; the ids are the row numbers."""
    rows = [Row(number, str(number), row, None) for number, row in enumerate(texts)]
    return table_from_rows(rows, tokenizer, None, ())


def table_from_rows(
    rows: Sequence[Row], tokenizer: Tokenizer, kind: Kind | None, labels: Sequence[str]
) -> TokenTable:
    """A table in memory; `kind` is None for rows without labels."""
    assert rows, "a table needs a row"
    chunks = list(_columns_of(rows, tokenizer, kind, labels))
    columns = {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
    for name in ("ends", "name_ends"):
        columns[name] = np.cumsum(columns[name], dtype=np.int64)
    return TokenTable(columns, len(rows[0].texts))


def write_table(
    folder: Path, rows: Iterable[Row], tokenizer: Tokenizer, kind: Kind | None, labels: Sequence[str]
) -> None:
    """Write the table of `rows` to `folder`, a chunk at a time; `kind` is None for rows without labels."""

    def fill(work: Path) -> None:
        files: dict[str, _Column] = {}
        texts = 1
        try:
            for chunk in _columns_of(rows, tokenizer, kind, labels):
                texts = len(chunk["ends"]) // len(chunk["lines"])
                for name, values in chunk.items():
                    if name not in files:
                        files[name] = _Column(work / name)
                    files[name].append(values, running=name in ("ends", "name_ends"))
        finally:
            for column in files.values():
                column.close()
        about = {name: column.about() for name, column in files.items()}
        (work / META).write_text(json.dumps({"format": FORMAT, "texts": texts, "columns": about}))

    build_folder(folder, fill)


@final
class _Column:
    """A column that is being written."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("wb")
        self._rows = 0
        self._total = 0
        self._crc = 0
        self._dtype = ""
        self._width: tuple[int, ...] = ()

    def append(self, values: Array, *, running: bool) -> None:
        """Add values; a `running` column holds the running total of what it is given."""
        if running:
            values = self._total + np.cumsum(values, dtype=np.int64)
            self._total = int(values[-1])
        data = np.ascontiguousarray(values).tobytes()
        self._file.write(data)
        self._crc = zlib.crc32(data, self._crc)
        self._rows += len(values)
        self._dtype, self._width = values.dtype.str, values.shape[1:]

    def close(self) -> None:
        self._file.close()

    def about(self) -> dict[str, object]:
        return {"dtype": self._dtype, "shape": [self._rows, *self._width], "crc32": self._crc}


def _columns_of(
    rows: Iterable[Row], tokenizer: Tokenizer, kind: Kind | None, labels: Sequence[str]
) -> Iterator[dict[str, Array]]:
    """The columns of each chunk of rows; `ends` and `name_ends` still hold lengths."""
    places = {label: place for place, label in enumerate(labels)}
    small = np.dtype(np.uint16 if tokenizer.vocab_size <= 2**16 else np.int32)
    for chunk in _chunks(rows):
        ids = _encode(chunk, tokenizer)
        names = [row.id.encode("utf-8", "surrogatepass") for row in chunk]
        columns: dict[str, Array] = {
            "ids": np.concatenate(ids).astype(small),
            "ends": np.array([len(text) for text in ids], dtype=np.int64),
            "lines": np.array([row.line for row in chunk], dtype=np.int64),
            "names": np.frombuffer(b"".join(names), dtype=np.uint8),
            "name_ends": np.array([len(name) for name in names], dtype=np.int64),
            "fingerprints": np.array([text_print(row.texts) for row in chunk], dtype=np.uint64),
            "name_prints": np.array([_print(name) for name in names], dtype=np.uint64),
        }
        if kind is not None:
            targets = [encode_label(row.label, kind, places) for row in chunk]
            columns["targets"] = np.array(targets, dtype=TARGET_TYPES[kind])
        yield columns


def _encode(rows: Sequence[Row], tokenizer: Tokenizer) -> list[Ids]:
    """The ids of every text of the rows, one after the other, cut where a row has a limit of its own."""
    ids = tokenizer.encode([text for row in rows for text in row.texts])
    start = 0
    for row in rows:
        end = start + len(row.texts)
        if row.max_tokens is not None:
            ids[start:end] = tokenizer.cut(ids[start:end], row.max_tokens)
        start = end
    return ids


def _chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    chunk: list[Row] = []
    characters = 0
    for row in rows:
        chunk.append(row)
        characters += sum(map(len, row.texts))
        if len(chunk) == ROWS_PER_CHUNK or characters >= CHARACTERS_PER_CHUNK:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def encode_label(label: Label, kind: Kind, places: Mapping[str, int]) -> int | float | list[int]:
    """A row's target: the place of its label, its value, or a flag a label."""
    match kind:
        case "classification":
            assert isinstance(label, str)
            return places[label]
        case "regression":
            assert isinstance(label, float)
            return label
        case "multilabel":
            assert isinstance(label, tuple)
            return [int(name in label) for name in places]


def text_print(texts: Sequence[str]) -> int:
    """A number that rows with the same texts share, blanks and case aside."""
    return _print(
        "\0".join(" ".join(text.casefold().split()) for text in texts).encode("utf-8", "surrogatepass")
    )


def _print(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest())
