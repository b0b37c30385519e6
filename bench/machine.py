"""The machine that a number was measured on: its processor and how fast it multiplies matrices."""

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

SHOWN_FLAGS = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
SQUARE = 2048
SECONDS_PER_PRODUCT = 0.05
TRIES = 5  # at least, of each product
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class GemmRates:
    """FLOP/s of matrix products in one type."""

    square: float  # of two large square matrices
    linears: float  # of all products in training the linears of a layer

    @property
    def peak(self) -> float:
        return max(self.square, self.linears)


def describe_machine() -> dict[str, Any]:
    """What a reader needs to know to place the numbers."""
    facts = _cpu_facts()
    flags = facts.get("flags", facts.get("Features", "")).split()
    return {
        "cpu": facts.get("model name") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "flags": [flag for flag in SHOWN_FLAGS if flag in flags],
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0],  # average of the last minute
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "accelerate": version("accelerate"),
    }


def _cpu_facts() -> dict[str, str]:
    """The first processor of /proc/cpuinfo; nothing where there is no such file."""
    path = Path("/proc/cpuinfo")
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    pairs = (line.partition(":") for line in text.split("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def measure_gemm(
    shapes: Sequence[tuple[int, int]], tokens: int, square: int = SQUARE
) -> dict[str, GemmRates]:
    """Rates for linears of these inputs and outputs on a batch of so many tokens, in each type."""
    return {
        name: GemmRates(_square_rate(square, dtype), _linears_rate(shapes, tokens, dtype))
        for name, dtype in DTYPES.items()
    }


def best_rates(rounds: Sequence[dict[str, GemmRates]]) -> dict[str, GemmRates]:
    """The best of several measurements: whatever else runs on a machine can only slow it."""
    return {
        name: GemmRates(
            max(rates[name].square for rates in rounds), max(rates[name].linears for rates in rounds)
        )
        for name in DTYPES
    }


def _square_rate(size: int, dtype: torch.dtype) -> float:
    left, right = torch.randn(2, size, size).to(dtype)
    return 2 * size**3 / _fastest(lambda: left @ right)


def _linears_rate(shapes: Sequence[tuple[int, int]], tokens: int, dtype: torch.dtype) -> float:
    """Output, gradient of the input and gradient of the weight: three products a linear."""
    seconds, operations = 0.0, 0
    for inputs, outputs in shapes:
        hidden, weight, gradient = (
            torch.randn(size).to(dtype) for size in ((tokens, inputs), (outputs, inputs), (tokens, outputs))
        )
        for product in _products(hidden, weight, gradient):
            seconds += _fastest(product)
            operations += 2 * tokens * inputs * outputs
    return operations / seconds


def _products(hidden: Tensor, weight: Tensor, gradient: Tensor) -> list[Callable[[], Tensor]]:
    return [lambda: hidden @ weight.T, lambda: gradient @ weight, lambda: gradient.T @ hidden]


def _fastest(product: Callable[[], Tensor]) -> float:
    """Seconds of the fastest call."""
    product()  # the first call builds the kernel
    fastest, total, calls = float("inf"), 0.0, 0
    while calls < TRIES or total < SECONDS_PER_PRODUCT:
        started = time.perf_counter()
        product()
        seconds = time.perf_counter() - started
        fastest, total, calls = min(fastest, seconds), total + seconds, calls + 1
    return fastest
