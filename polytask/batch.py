"""What a batch is: padded token sequences and the rows of them that belong to each task."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Tokens:
    """A padded batch of token sequences."""

    ids: Tensor  # int64 [B, L], padded on the right
    lengths: Tensor  # int64 [B], at least 1
    segments: Tensor | None = None  # int64 [B, L]; None: all 0

    def padding_bias(self, dtype: torch.dtype) -> Tensor | None:
        """What is added to attention scores, [B, 1, 1, L]; None where nothing is padded."""
        width = self.ids.shape[1]
        # An exported graph holds for every batch, so it always adds the bias.
        if not torch.compiler.is_exporting() and int(self.lengths.min()) == width:
            return None
        bias = torch.zeros(self.ids.shape, dtype=dtype, device=self.ids.device)
        return bias.masked_fill_(~self.mask(), torch.finfo(dtype).min)[:, None, None, :]

    def mask(self) -> Tensor:
        """True where a token is real, bool [B, L]."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths[:, None]

    def rows(self, rows: slice) -> "Tokens":
        """Some of the sequences, padded as they were."""
        segments = None if self.segments is None else self.segments[rows]
        return Tokens(self.ids[rows], self.lengths[rows], segments)

    def to(self, device: torch.device) -> "Tokens":
        segments = None if self.segments is None else self.segments.to(device, non_blocking=True)
        return Tokens(
            self.ids.to(device, non_blocking=True), self.lengths.to(device, non_blocking=True), segments
        )


@dataclass(frozen=True)
class Batch:
    """Rows of one or several tasks, ready for the encoder.

    A task's rows are a contiguous slice of the sequences. Slices may overlap, when several tasks are asked of
    the same texts. Where a task encodes the sentences of a pair separately, the first half of its slice holds
    the first sentences and the second half the second ones.
    """

    tokens: Tokens
    slices: Mapping[str, slice]
    targets: Mapping[str, Tensor]  # a task's targets, one a row; empty for prediction
    num_tokens: int  # real ones, without padding

    def to(self, device: torch.device) -> "Batch":
        if device.type == "cpu":
            return self
        targets = {task: values.to(device, non_blocking=True) for task, values in self.targets.items()}
        return replace(self, tokens=self.tokens.to(device), targets=targets)
