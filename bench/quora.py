"""What every contender trains on: the same sample of Quora rows, cut into batches of the same size."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from polytask.data.known import FOLDER_VARIABLE, KNOWN_SETS
from polytask.data.rows import Row, read_rows
from polytask.data.tokenizer import Tokenizer
from polytask.errors import DataError
from polytask.recipe_tasks import TaskRecipe

BATCH_SIZE = 32
MAX_LENGTH = 128
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"  # beside a checkout
QUORA = KNOWN_SETS["cs224n/quora"]
TEXT, LABEL = QUORA.text, QUORA.label


@dataclass(frozen=True)
class Sample:
    """Rows, the file that holds them, and how many tokens each has with its specials."""

    rows: tuple[Row, ...]
    path: Path  # JSON lines
    lengths: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """Real tokens; padding is nobody's work."""
        return sum(self.lengths)

    @property
    def updates(self) -> int:
        """Updates of one epoch."""
        return -(-len(self.rows) // BATCH_SIZE)


def find_quora() -> Path:
    """The training file in $POLYTASK_DATA, or beside the checkout where that is not set."""
    named = os.environ.get(FOLDER_VARIABLE)
    path = (Path(named).expanduser() if named else SHARED_DATA) / QUORA.files["train"]
    if not path.is_file():
        raise DataError(
            f"{path}: no such file. This benchmark trains on the CS224N project's Quora rows: "
            f"set {FOLDER_VARIABLE} to the folder that holds {path.name}."
        )
    return path


def draw_samples(
    source: Path, updates: Sequence[int], tokenizer: Tokenizer, folder: Path, seed: int = 1
) -> list[Sample]:
    """Disjoint random samples that fill so many updates each, written into `folder`."""
    written = TaskRecipe(train=str(source), text=TEXT, label=(LABEL,))
    rows = [row for row in read_rows(source, written) if isinstance(row, Row)]
    wanted = sum(updates) * BATCH_SIZE
    if wanted > len(rows):
        raise DataError(
            f"{source}: its {len(rows):,} rows are too few for {sum(updates):,} updates of {BATCH_SIZE} rows "
            "(warm-up included): use fewer --updates."
        )
    order = np.random.default_rng(seed).permutation(len(rows))[:wanted]
    parts = np.split(order, np.cumsum(updates)[:-1] * BATCH_SIZE)
    return [
        _write_sample([rows[number] for number in part], folder / f"sample-{place}.jsonl", tokenizer)
        for place, part in enumerate(parts)
    ]


def _write_sample(rows: Sequence[Row], path: Path, tokenizer: Tokenizer) -> Sample:
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            cells = dict(zip(TEXT, row.texts, strict=True))
            file.write(json.dumps({"id": row.id, **cells, LABEL: row.label}) + "\n")
    special = len(tokenizer.prefix) + len(tokenizer.middle) + len(tokenizer.suffix)
    columns = [tokenizer.encode([row.texts[part] for row in rows]) for part in range(len(TEXT))]
    lengths = (special + sum(map(len, parts)) for parts in zip(*columns, strict=True))
    return Sample(tuple(rows), path, tuple(min(length, MAX_LENGTH) for length in lengths))
