"""What processes that train one model together tell each other; alone, nothing."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, distributed


@final
class World:
    """This process among those that train together; every call is made by all of them in the same order."""

    def __init__(self) -> None:
        self.together = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank() if self.together else 0
        self.size = distributed.get_world_size() if self.together else 1

    def sum(self, tensors: Sequence[Tensor]) -> None:
        """Put the sum over all processes into each tensor."""
        if self.together and tensors:
            with torch.no_grad():
                flat = torch.cat([tensor.flatten() for tensor in tensors])
                distributed.all_reduce(flat)
                totals = torch.split(flat, [tensor.numel() for tensor in tensors])
                for tensor, total in zip(tensors, totals, strict=True):
                    tensor.copy_(total.view_as(tensor))

    def any(self, flags: Sequence[bool]) -> list[bool]:
        """For each flag, whether it holds in any process."""
        if not self.together:
            return list(flags)
        counts = torch.tensor(flags, dtype=torch.int32)
        distributed.all_reduce(counts)
        return [bool(count) for count in counts.tolist()]

    def gather_rows(self, ids: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """The numbered rows of all processes, ids [N] and values [N, D], one process after another."""
        if not self.together:
            return ids, values
        counts = torch.zeros(self.size, dtype=torch.int64)
        counts[self.rank] = len(ids)
        distributed.all_reduce(counts)
        longest = int(counts.max())
        padded = torch.zeros(longest, dtype=ids.dtype), torch.zeros(longest, values.shape[1])
        padded[0][: len(ids)], padded[1][: len(ids)] = ids, values
        every = [[torch.empty_like(part) for _ in range(self.size)] for part in padded]
        for part, places in zip(padded, every, strict=True):
            distributed.all_gather(places, part)
        kept = [int(count) for count in counts]
        return (
            torch.cat([part[:count] for part, count in zip(every[0], kept, strict=True)]),
            torch.cat([part[:count] for part, count in zip(every[1], kept, strict=True)]),
        )
