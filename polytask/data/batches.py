"""Token tables to batches: length-bucketed, seeded, and resumable from one number."""

import zlib
from collections.abc import Iterator, Sequence
from typing import final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from polytask.batch import Batch, Tokens
from polytask.data.tokenizer import Tokenizer
from polytask.data.tokens import TokenTable
from polytask.tasks import Task

BUCKET_BATCHES = 50  # batches cut from one pool of rows sorted by length: wide enough to leave little padding

Ints = npt.NDArray[np.int64]


@final
class BatchStream:
    """An endless, seeded order of one task's rows, cut into batches of rows of like length.

    Every row comes once before any comes again. The order is a function of the seed, the task and the epoch,
    so `position`, the number of batches drawn so far, is all that a checkpoint has to keep.
    """

    def __init__(self, task: str, lengths: Ints, batch_size: int, seed: int) -> None:
        self.position = 0
        self.batches_per_epoch = -(-len(lengths) // batch_size)
        self._lengths = lengths
        self._batch_size = batch_size
        self._seed = (seed, zlib.crc32(task.encode()))
        self._epoch = -1
        self._batches: list[Ints] = []

    def next(self) -> Ints:
        """The rows of the next batch."""
        epoch, number = divmod(self.position, self.batches_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._shuffle(epoch)
        self.position += 1
        return self._batches[number]

    def _shuffle(self, epoch: int) -> list[Ints]:
        random = np.random.default_rng([*self._seed, epoch])
        rows = random.permutation(len(self._lengths))
        batches: list[Ints] = []
        pool = self._batch_size * BUCKET_BATCHES
        for start in range(0, len(rows), pool):
            bucket = rows[start : start + pool]
            bucket = bucket[np.argsort(self._lengths[bucket], kind="stable")]
            cut = [
                bucket[first : first + self._batch_size] for first in range(0, len(bucket), self._batch_size)
            ]
            batches.extend(cut[number] for number in random.permutation(len(cut)))
        return batches


@final
class Collator:
    """Puts rows of token tables together as the encoder wants them: specials, truncation, padding."""

    def __init__(self, tokenizer: Tokenizer, max_length: int) -> None:
        self._max_length = max_length
        self._prefix, self._middle, self._suffix = (
            np.asarray(part, dtype=np.int64)
            for part in (tokenizer.prefix, tokenizer.middle, tokenizer.suffix)
        )
        self._second_segment = tokenizer.second_segment
        self._pad_id = tokenizer.pad_id

    def lengths(self, task: Task, table: TokenTable) -> Ints:
        """The tokens of each row as the encoder gets it, specials included (of separate pairs the longer)."""
        parts = table.lengths().astype(np.int64)
        special = len(self._prefix) + len(self._suffix)
        if task.separate or task.texts == 1:
            return np.minimum(parts.max(axis=1) + special, self._max_length)
        special += len(self._middle)
        return np.minimum(parts.sum(axis=1) + special, self._max_length)

    def batch(self, task: Task, table: TokenTable, rows: Sequence[int] | Ints) -> Batch:
        """Some rows of one task."""
        if task.separate:
            sequences = [self._single(table, int(row), part) for part in (0, 1) for row in rows]
        elif task.texts == 2:
            sequences = [self._pair(table, int(row)) for row in rows]
        else:
            sequences = [self._single(table, int(row), 0) for row in rows]
        tokens = self._pad([ids for ids, _ in sequences], [second for _, second in sequences])
        targets = {}
        if table.targets is not None:
            targets[task.name] = torch.from_numpy(np.asarray(table.targets[rows]))
        num_tokens = sum(len(ids) for ids, _ in sequences)
        return Batch(tokens, {task.name: slice(0, len(sequences))}, targets, num_tokens)

    def _single(self, table: TokenTable, row: int, part: int) -> tuple[Ints, int]:
        room = self._max_length - len(self._prefix) - len(self._suffix)
        ids = np.concatenate([self._prefix, table.text_ids(row, part)[:room], self._suffix])
        return ids, len(ids)

    def _pair(self, table: TokenTable, row: int) -> tuple[Ints, int]:
        """The joined sentences, and where the second segment starts."""
        first, second = table.text_ids(row, 0), table.text_ids(row, 1)
        room = self._max_length - len(self._prefix) - len(self._middle) - len(self._suffix)
        keep_first, keep_second = cut_longest_first(len(first), len(second), room)
        parts = [self._prefix, first[:keep_first], self._middle, second[:keep_second], self._suffix]
        return np.concatenate(parts), len(self._prefix) + keep_first + len(self._middle)

    def _pad(self, sequences: list[Ints], seconds: list[int]) -> Tokens:
        lengths = np.fromiter((len(ids) for ids in sequences), dtype=np.int64, count=len(sequences))
        width = int(lengths.max())
        padded = np.full((len(sequences), width), self._pad_id, dtype=np.int64)
        for row, ids in enumerate(sequences):
            padded[row, : len(ids)] = ids
        return Tokens(
            torch.from_numpy(padded), torch.from_numpy(lengths), self._segments(lengths, seconds, width)
        )

    def _segments(self, lengths: Ints, seconds: list[int], width: int) -> Tensor | None:
        starts = np.asarray(seconds)
        if self._second_segment == 0 or (starts == lengths).all():
            return None
        place = np.arange(width)
        second = (place >= starts[:, None]) & (place < lengths[:, None])
        return torch.from_numpy(second.astype(np.int64) * self._second_segment)


def cut_longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens of each sentence to keep when the longer one is cut first."""
    if first + second <= room:
        return first, second
    if first <= second:
        kept = min(first, room // 2)
        return kept, room - kept
    kept = min(second, room - room // 2)
    return room - kept, kept


def budget_batches(lengths: Ints, budget: int) -> Iterator[Ints]:
    """All rows once, longest first, in batches of at most `budget` tokens with their padding."""
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        size = max(1, budget // int(lengths[order[start]]))
        yield order[start : start + size]
        start += size
