"""Where a model computes and in which precision."""

import ctypes
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch

from polytask.errors import RecipeError

# M_MMAP_THRESHOLD at its greatest, M_TRIM_THRESHOLD off, M_ARENA_MAX 1: the backward thread shares memory too
GLIBC_OPTIONS = ((-3, 32 * 2**20), (-1, 2**31 - 1), (-8, 1))

Precision = Literal["auto", "bf16", "fp32"]


@dataclass(frozen=True)
class Compute:
    """A device and the type that matrix products run in; weights stay fp32."""

    device: torch.device
    dtype: torch.dtype

    def autocast(self) -> AbstractContextManager[object]:
        """Matrix products in `dtype`, where that is not fp32."""
        if self.dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)


def choose_compute(device: str = "auto", precision: Precision = "auto") -> Compute:
    """CUDA where there is one, and bf16 where the hardware multiplies it faster than fp32."""
    if device == "cuda" and not torch.cuda.is_available():
        raise RecipeError("device is 'cuda', but torch finds no CUDA device here: use 'cpu' or 'auto'.")
    kind = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
    fast_bf16 = torch.cuda.is_bf16_supported() if kind == "cuda" else _cpu_has_bf16()
    use_bf16 = precision == "bf16" or (precision == "auto" and fast_bf16)
    return Compute(torch.device(kind), torch.bfloat16 if use_bf16 else torch.float32)


def keep_freed_memory() -> None:
    """Let the C library keep what tensors free, instead of handing it back and asking for it again.

    Every update allocates the same large tensors. By default glibc maps those afresh each time, and touching
    new pages takes a tenth of a training step. Elsewhere than on glibc this does nothing.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    for option, value in GLIBC_OPTIONS:
        mallopt(option, value)


def _cpu_has_bf16() -> bool:
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
