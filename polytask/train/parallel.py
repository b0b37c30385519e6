"""What processes that train one model together tell each other; alone, nothing."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, final

import torch
from torch import Tensor, distributed

PATIENCE = timedelta(minutes=30)  # how long the others wait for one that prepares data or writes a file


class LostProcessError(RuntimeError):
    """Another process of the training is gone, so that this one cannot go on."""


def _call(collective: Callable[..., object], *arguments: object) -> None:
    """One exchange with the other processes; says what a broken connection means."""
    try:
        collective(*arguments)
    except RuntimeError as error:
        raise LostProcessError(
            "Another process of this training ended; --resume goes on from the last checkpoint."
        ) from error


@final
class World:
    """This process among those that train together; every call is made by all of them in the same order."""

    def __init__(self) -> None:
        self.together = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank() if self.together else 0
        self.size = distributed.get_world_size() if self.together else 1

    @property
    def leads(self) -> bool:
        """Whether this is the one process that writes."""
        return self.rank == 0

    @contextmanager
    def leader_first(self) -> Iterator[None]:
        """The others begin once the leader is through, and find what it cached."""
        if self.together and not self.leads:
            _call(distributed.barrier)
        yield
        if self.together and self.leads:
            _call(distributed.barrier)

    def sum(self, tensors: Sequence[Tensor]) -> None:
        """Put the sum over all processes into each tensor."""
        if self.together and tensors:
            with torch.no_grad():
                if len(tensors) == 1 and tensors[0].is_contiguous():
                    _call(distributed.all_reduce, tensors[0])
                    return
                flat = torch.cat([tensor.flatten() for tensor in tensors])
                _call(distributed.all_reduce, flat)
                totals = torch.split(flat, [tensor.numel() for tensor in tensors])
                torch._foreach_copy_(
                    list(tensors),
                    [total.view_as(tensor) for tensor, total in zip(tensors, totals, strict=True)],
                )

    def sum_gradients(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        """The gradients of those parameters that have one in any process, summed over all processes."""
        flags = self.any([parameter.grad is not None for parameter in parameters])
        present = [parameter for parameter, flag in zip(parameters, flags, strict=True) if flag]
        for parameter in present:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in present if parameter.grad is not None]
        self.sum(gradients)
        return gradients

    def any(self, flags: Sequence[bool]) -> list[bool]:
        """For each flag, whether it holds in any process."""
        if not self.together:
            return list(flags)
        counts = torch.tensor(flags, dtype=torch.int32)
        _call(distributed.all_reduce, counts)
        return [bool(count) for count in counts.tolist()]

    def told(self, value: Any) -> Any:
        """The leader's value, which has a JSON form."""
        if not self.together:
            return value
        written = json.dumps(value).encode() if self.leads else b""
        length = torch.tensor(len(written))
        _call(distributed.broadcast, length, 0)
        text = torch.zeros(int(length), dtype=torch.uint8)
        if self.leads:
            text.copy_(torch.frombuffer(bytearray(written), dtype=torch.uint8))
        _call(distributed.broadcast, text, 0)
        return json.loads(text.numpy().tobytes())

    def gather_rows(self, ids: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """The numbered rows of all processes, ids [N] and values [N, D], one process after another."""
        if not self.together:
            return ids, values
        counts = torch.zeros(self.size, dtype=torch.int64)
        counts[self.rank] = len(ids)
        _call(distributed.all_reduce, counts)
        longest = int(counts.max())
        padded = torch.zeros(longest, dtype=ids.dtype), torch.zeros(longest, values.shape[1])
        padded[0][: len(ids)], padded[1][: len(ids)] = ids, values
        every = [[torch.empty_like(part) for _ in range(self.size)] for part in padded]
        for part, places in zip(padded, every, strict=True):
            _call(distributed.all_gather, places, part)
        kept = [int(count) for count in counts]
        return (
            torch.cat([part[:count] for part, count in zip(every[0], kept, strict=True)]),
            torch.cat([part[:count] for part, count in zip(every[1], kept, strict=True)]),
        )


def place_in_world() -> tuple[int, int]:
    """This process's number and how many train together, as torchrun or `launch` told it."""
    if "RANK" not in os.environ:
        return 0, 1
    return int(os.environ["RANK"]), int(os.environ.get("WORLD_SIZE", "1"))


@contextmanager
def joined(device: torch.device) -> Iterator[World]:
    """Meet the other processes for the time of a training, where there are any."""
    if place_in_world()[1] == 1 or distributed.is_initialized():
        yield World()
        return
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    distributed.init_process_group(
        "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE
    )
    try:
        yield World()
    finally:
        distributed.destroy_process_group()
