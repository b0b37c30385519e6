"""Rows of token tables as padded arrays: specials, truncation and padding, the same for every engine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from polytask.data.tokenizer import Tokenizer, cut_longest_first
from polytask.data.tokens import TokenTable
from polytask.tasks import Task

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Padded:
    """Token sequences, padded on the right."""

    ids: Ints  # [B, L]
    lengths: Ints  # [B], at least 1
    segments: Ints | None = None  # [B, L]; None: all 0

    def rows(self, rows: slice) -> "Padded":
        """Some of the sequences, padded as they were."""
        segments = None if self.segments is None else self.segments[rows]
        return Padded(self.ids[rows], self.lengths[rows], segments)


@final
class Padder:
    """Puts rows of token tables together as the encoder wants them.

    Where a task encodes the sentences of a pair separately, the first half of the sequences holds the first
    sentences and the second half the second ones.
    """

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
        return self._sequence_lengths(task, table.lengths()).max(axis=1)

    def num_tokens(self, task: Task, table: TokenTable, rows: Ints) -> int:
        """The real tokens of some rows, specials included."""
        return int(self._sequence_lengths(task, table.lengths()[rows]).sum())

    def _sequence_lengths(self, task: Task, texts: npt.NDArray[np.int32]) -> Ints:
        """From the tokens of each text [N, T] those of each row's sequences [N, S]."""
        parts = texts.astype(np.int64)
        special = len(self._prefix) + len(self._suffix)
        if task.texts == 2 and not task.separate:
            parts = parts.sum(axis=1, keepdims=True)
            special += len(self._middle)
        return np.minimum(parts + special, self._max_length)

    def pad(self, task: Task, table: TokenTable, rows: Sequence[int] | Ints) -> Padded:
        """Some rows of one task."""
        if task.separate:
            sequences = [self._single(table, int(row), part) for part in (0, 1) for row in rows]
        elif task.texts == 2:
            sequences = [self._pair(table, int(row)) for row in rows]
        else:
            sequences = [self._single(table, int(row), 0) for row in rows]
        return self._pad([ids for ids, _ in sequences], [second for _, second in sequences])

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

    def _pad(self, sequences: list[Ints], seconds: list[int]) -> Padded:
        lengths = np.fromiter((len(ids) for ids in sequences), dtype=np.int64, count=len(sequences))
        width = int(lengths.max())
        padded = np.full((len(sequences), width), self._pad_id, dtype=np.int64)
        for row, ids in enumerate(sequences):
            padded[row, : len(ids)] = ids
        return Padded(padded, lengths, self._segments(lengths, seconds, width))

    def _segments(self, lengths: Ints, seconds: list[int], width: int) -> Ints | None:
        starts = np.asarray(seconds)
        if self._second_segment == 0 or (starts == lengths).all():
            return None
        place = np.arange(width)
        second = (place >= starts[:, None]) & (place < lengths[:, None])
        segments: Ints = second.astype(np.int64) * self._second_segment
        return segments


def budget_batches(lengths: Ints, budget: int) -> Iterator[Ints]:
    """All rows once, longest first, in batches of at most `budget` tokens with their padding."""
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        size = max(1, budget // int(lengths[order[start]]))
        yield order[start : start + size]
        start += size
