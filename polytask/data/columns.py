"""Downloaded tables to one Parquet file a split, class numbers as names and without unlabelled rows."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from polytask.data.fetch import DEV_PERCENT, normalised
from polytask.errors import DataError

BATCH = 8192
ENDINGS = (".parquet", ".jsonl", ".json", ".csv", ".tsv")


def read_tables(paths: Sequence[Path]) -> Iterator[Any]:
    """The rows of files, a table at a time, with the names of classes where the files say which there are.

    A class of -1 means that there is none; it becomes an empty cell, and a column of nothing else goes.
    """
    unlabelled: set[str] | None = None
    for path in paths:
        with _readable(path):
            of_file = _unlabelled(path)
        unlabelled = of_file if unlabelled is None else unlabelled & of_file
    for path in paths:
        with _readable(path):
            names = _class_names(path)
            for table in _plain_tables(path):
                for column in table.column_names:
                    if column in names:
                        place = table.column_names.index(column)
                        table = table.set_column(place, column, _named(table[column], names[column]))
                yield table.drop_columns([name for name in unlabelled or () if name in table.column_names])


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, KeyError, IndexError) as error:
        raise DataError(f"{path}: cannot be read as a table ({_first_line(error)}).") from None


def write_tables(tables: Iterable[Any], target: Path) -> int:
    """Write tables as one Parquet file, in the first one's columns and types; returns the rows."""
    import pyarrow.parquet as pq

    writer, count = None, 0
    try:
        for table in tables:
            if table.num_rows == 0:
                continue
            if writer is None:
                schema = table.schema.remove_metadata()
                writer = pq.ParquetWriter(target, schema, compression="zstd")
            writer.write_table(table.select(schema.names).cast(schema))
            count += table.num_rows
    finally:
        if writer is not None:
            writer.close()
    return count


def keep_columns(table: Any, texts: Sequence[str], label: str) -> Any:
    """The id, the texts and, if it is there, the label; rows that lack a label are left out."""
    import pyarrow.compute as pc

    wanted = {name: name for name in (*texts, label) if name in table.column_names}
    missing = [name for name in texts if name not in wanted]
    if missing:
        raise DataError(
            f"the set should have a column {missing[0]!r}. Found {', '.join(table.column_names)}."
        )
    row_id = next((name for name in ("id", "idx") if name in table.column_names and name not in wanted), None)
    table = table.select([*([row_id] if row_id else []), *wanted])
    if row_id == "idx":
        table = table.rename_columns(["id", *wanted])
    return table.filter(pc.is_valid(table[label])) if label in wanted else table


def split_off_dev(tables: Iterable[Any], texts: Sequence[str], dev: bool) -> Iterator[Any]:
    """The rows of train whose texts' hash puts them into dev, or the others: no text is in both."""
    import pyarrow as pa

    for table in tables:
        cells = [table[name].to_pylist() for name in texts]
        mask = [_is_dev(row) == dev for row in zip(*cells, strict=True)]
        yield table.filter(pa.array(mask, type=pa.bool_()))


def _is_dev(texts: Sequence[object]) -> bool:
    words = "\t".join(normalised(str(text)) for text in texts)
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8]) % 100 < DEV_PERCENT


def _plain_tables(path: Path) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.json
    import pyarrow.parquet as pq

    ending = Path(path.name.removesuffix(".gz")).suffix
    if ending == ".parquet":
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH):
                yield pa.Table.from_batches([batch])
        return
    with pa.input_stream(str(path), compression="detect") as stream:
        if ending in (".jsonl", ".json"):
            yield pyarrow.json.read_json(stream)
        else:
            form = pyarrow.csv.ParseOptions(
                delimiter="\t" if ending == ".tsv" else ",", newlines_in_values=True
            )
            yield pyarrow.csv.read_csv(stream, parse_options=form)


def _class_names(path: Path) -> dict[str, list[str]]:
    """The classes of each column that holds class numbers, from what the hub writes into Parquet files."""
    import pyarrow.parquet as pq

    if path.suffix != ".parquet":
        return {}
    written = (pq.read_schema(path).metadata or {}).get(b"huggingface", b"{}")
    try:
        features = json.loads(written)["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}
    names = {}
    for column, feature in features.items():
        inner = feature.get("feature", feature) if isinstance(feature, dict) else feature
        inner = inner[0] if isinstance(inner, list) and inner else inner
        if isinstance(inner, dict) and isinstance(inner.get("names"), list):
            names[column] = [str(name) for name in inner["names"]]
    return names


def _named(column: Any, names: list[str]) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    words = pa.array(names)
    chunks = []
    for chunk in column.chunks:
        if pa.types.is_list(chunk.type) or pa.types.is_large_list(chunk.type):
            taken = words.take(chunk.flatten())
            lengths = pc.fill_null(pc.list_value_length(chunk), 0)
            ends = pc.cumulative_sum(lengths).cast(pa.int32())
            offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
            chunks.append(pa.ListArray.from_arrays(offsets, taken))
        else:
            known = pc.greater_equal(chunk, 0)
            chunks.append(words.take(pc.if_else(known, chunk, pa.scalar(None, chunk.type))))
    return pa.chunked_array(chunks)


def _unlabelled(path: Path) -> set[str]:
    """The columns of classes in which no row of a file has any."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    found = set()
    for column in _class_names(path):
        cells = pq.read_table(path, columns=[column])[column]
        if str(cells.type).startswith("int") and not pc.any(pc.greater_equal(cells, 0)).as_py():
            found.add(column)
    return found


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
