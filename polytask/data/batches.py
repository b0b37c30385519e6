"""Token tables to batches: length-bucketed, seeded, and resumable from one number."""

import zlib
from collections.abc import Sequence
from typing import final

import numpy as np
import torch

from polytask.batch import Batch, Tokens
from polytask.data.padding import Ints, Padded, Padder
from polytask.data.tokenizer import Tokenizer
from polytask.data.tokens import TokenTable
from polytask.tasks import Task

BUCKET_BATCHES = 50  # batches cut from one pool of rows sorted by length: wide enough to leave little padding


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
    """Makes batches of tensors from rows of token tables."""

    def __init__(self, tokenizer: Tokenizer, max_length: int) -> None:
        self.padder = Padder(tokenizer, max_length)
        self.tokenizer = tokenizer

    def lengths(self, task: Task, table: TokenTable) -> Ints:
        """The tokens of each row as the encoder gets it (see `Padder.lengths`)."""
        return self.padder.lengths(task, table)

    def batch(self, task: Task, table: TokenTable, rows: Sequence[int] | Ints) -> Batch:
        """Some rows of one task."""
        padded = self.padder.pad(task, table, rows)
        targets = {}
        if table.targets is not None:
            targets[task.name] = torch.from_numpy(np.asarray(table.targets[rows]))
        slices = {task.name: slice(0, len(padded.lengths))}
        return Batch(to_tokens(padded), slices, targets, int(padded.lengths.sum()))


def to_tokens(padded: Padded) -> Tokens:
    """Padded arrays as tensors that share their memory."""
    segments = None if padded.segments is None else torch.from_numpy(padded.segments)
    return Tokens(torch.from_numpy(padded.ids), torch.from_numpy(padded.lengths), segments)
