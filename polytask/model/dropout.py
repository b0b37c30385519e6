"""Dropout whose masks come from a generator that is passed in, eight mask bytes from one random integer."""

from typing import final

import torch
from torch import Tensor


@final
class Dropout:
    """Zeroes a share of a tensor's elements; the state of its generator is all that a checkpoint has to keep.

    The share is a multiple of 1/256, since each element is decided by one random byte: 0.1 becomes 0.1016.
    What is kept is scaled by the share that is really kept, so the expectation is exact.
    """

    def __init__(self, rate: float, generator: torch.Generator) -> None:
        self.threshold = min(round(rate * 256), 255)
        self.generator = generator

    def __call__(self, hidden: Tensor) -> Tensor:
        if self.threshold == 0:
            return hidden
        # From -2^63 on, all 64 bits are random; the default range leaves the sign bit out.
        num_words = (hidden.numel() + 7) // 8
        words = torch.empty(num_words, dtype=torch.int64, device=hidden.device)
        words.random_(-(2**63), None, generator=self.generator)
        keep = words.view(torch.uint8)[: hidden.numel()].view(hidden.shape) >= self.threshold
        return hidden * keep.to(hidden.dtype).mul_(256 / (256 - self.threshold))
