"""The rows of a Parquet file, a batch at a time."""

import gzip
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from polytask.errors import DataError

MAX_UNPACKED = 2**34  # bytes; a .parquet.gz has to be unpacked whole before it can be read
BATCH = 1024
BLOCK = 2**20


@contextmanager
def parquet_file(path: Path) -> Iterator[Any]:
    """The open file as pyarrow sees it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _unpacked(path) as source:
        try:
            with pq.ParquetFile(source, pre_buffer=False) as file:
                yield file
        except pa.ArrowException as error:
            raise DataError(f"{path}: is not a Parquet file, or is damaged ({_first_line(error)}).") from None


@contextmanager
def _unpacked(path: Path) -> Iterator[IO[bytes]]:
    if not path.name.lower().endswith(".gz"):
        with path.open("rb") as file:
            yield file
        return
    with tempfile.TemporaryFile() as plain:
        with gzip.open(path, "rb") as packed:
            while block := packed.read(BLOCK):
                plain.write(block)
                if plain.tell() > MAX_UNPACKED:
                    raise DataError(f"{path}: unpacks to more than {MAX_UNPACKED:,} bytes.")
        plain.seek(0)
        yield plain


def parquet_rows(file: Any, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, object] | str]]:
    """The number of each row from 1, and its cells, or what is wrong with them."""
    number = 0
    for batch in file.iter_batches(batch_size=BATCH, columns=list(dict.fromkeys(columns))):
        cells = {name: batch.column(batch.schema.get_field_index(name)) for name in columns}
        try:
            lists = {name: column.to_pylist() for name, column in cells.items()}
        except ValueError:  # a cell that says it is text but is not UTF-8: find whose it is
            for place in range(batch.num_rows):
                number += 1
                yield number, _cells_of(cells, place)
            continue
        for place in range(batch.num_rows):
            number += 1
            yield number, {name: column[place] for name, column in lists.items()}


def _cells_of(cells: dict[str, Any], place: int) -> dict[str, object] | str:
    try:
        return {name: column[place].as_py() for name, column in cells.items()}
    except UnicodeDecodeError:
        return "is not UTF-8"
    except ValueError as error:
        return f"holds a value that cannot be read ({_first_line(error)})"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
