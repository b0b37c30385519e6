"""Training speed on a CPU, side by side with Hugging Face Trainer: `python -m bench.train`.

All contenders train one epoch on the same Quora rows with the same encoder and batch size, in one process and
with torch's own number of threads. They take turns for several rounds, each with a warm-up on other rows, and
each round begins with another one. Speed is in real tokens a second: padding is not counted.
"""

import argparse
import gc
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench.contenders import Contender, Timed, polytask
from bench.flops import linear_shapes, training_flops
from bench.machine import GemmRates, best_rates, describe_machine, measure_gemm
from bench.quora import BATCH_SIZE, MAX_LENGTH, Sample, draw_samples, find_quora
from bench.table import print_results, summarise
from polytask.console import stderr
from polytask.data.tokenizer import Tokenizer
from polytask.errors import UserError
from polytask.model.compute import choose_compute
from polytask.model.locate import locate_encoder
from polytask.model.weights import read_config

RESULTS = Path(__file__).parent / "results" / "train.json"
WARMUP_UPDATES = 2
PEERS = ("Trainer", "Trainer bf16")  # as it comes, and with bf16=True


def main(arguments: Sequence[str] | None = None, encoder: str = "minilm", results: Path = RESULTS) -> int:
    """Measure, print a table and write `results`; the exit code."""
    options = _parse(arguments)
    try:
        document = compare(encoder, options.updates, options.rounds)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print_results(document)
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.train", description="Training speed on a CPU.")
    parser.add_argument("--updates", type=_positive, help="in each measurement (default: 20)")
    parser.add_argument("--rounds", type=_positive, help="measurements of each contender (default: 3)")
    parser.add_argument("--quick", action="store_true", help="4 updates and 1 round: does it run at all?")
    options = parser.parse_args(arguments)
    options.updates = options.updates or (4 if options.quick else 20)
    options.rounds = options.rounds or (1 if options.quick else 3)
    return options


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"should be a whole number from 1. Found {text!r}.")
    return int(text)


def compare(encoder: str, updates: int, rounds: int) -> dict[str, Any]:
    """Everything that one run of the benchmark found out."""
    source = find_quora()
    folder = locate_encoder(encoder, Path.cwd())
    contenders = _contenders(folder)
    config, machine = read_config(folder), describe_machine()
    with TemporaryDirectory(prefix="polytask-bench-") as work:
        os.environ["POLYTASK_CACHE"] = str(Path(work) / "cache")  # samples are nothing to keep
        warm, sample = draw_samples(source, [WARMUP_UPDATES, updates], Tokenizer.load(folder), Path(work))
        shapes, batch_tokens = linear_shapes(config), round(sample.tokens / updates)
        gemm: list[dict[str, GemmRates]] = []
        timed: dict[str, list[Timed]] = {name: [] for name in contenders}
        for number in range(rounds):
            gemm.append(measure_gemm(shapes, batch_tokens))
            for name in _order(list(contenders), number):
                stderr.print(f"round {number + 1} of {rounds}: {name} ...", end=" ")
                timed[name].append(_measure(contenders[name], warm, sample, number, Path(work)))
                stderr.print(f"{timed[name][-1].tokens_per_second:,.0f} tokens/s")
    flops, rates = training_flops(config, sample.lengths), best_rates(gemm)
    bound = rates["bf16"].peak / flops.total
    return {
        "machine": machine,
        "setting": {
            "encoder": encoder,
            "data": str(source),
            "updates": updates,
            "warmup_updates": WARMUP_UPDATES,
            "rounds": rounds,
            "batch_size": BATCH_SIZE,
            "max_length": MAX_LENGTH,
            "tokens": sample.tokens,
            "precision": "bf16" if choose_compute("cpu").dtype == torch.bfloat16 else "fp32",
        },
        "flops_per_token": {"linears": flops.linears, "attention": flops.attention, "text": str(flops)},
        "gemm": {name: asdict(rate) for name, rate in rates.items()},
        "bound": bound,  # tokens/s if training were matrix products in bf16 and nothing else
        "contenders": summarise(timed, PEERS, updates, bound),
    }


def _contenders(encoder: Path) -> Mapping[str, Contender]:
    for package in ("transformers", "accelerate"):
        if find_spec(package) is None:
            raise UserError(f"this benchmark needs {package}: install polytask with its extra 'dev'.")
    from bench.peers import hugging_face  # takes seconds

    return {
        "polytask": polytask(encoder),
        "polytask fp32": polytask(encoder, precision="fp32"),
        PEERS[0]: hugging_face(encoder, bf16=False),
        PEERS[1]: hugging_face(encoder, bf16=True),
    }


def _order(names: Sequence[str], round_number: int) -> list[str]:
    """Another one first in each round, so that coming after a certain other is nobody's lot."""
    first = round_number % len(names)
    return [*names[first:], *names[:first]]


def _measure(contender: Contender, warm: Sample, sample: Sample, seed: int, work: Path) -> Timed:
    """One measurement after a warm-up; what the trainings wrote is gone when the next one starts."""
    for rows in (warm, sample):
        with TemporaryDirectory(dir=work) as folder:
            timed = contender(rows, seed, Path(folder))
        gc.collect()  # a Trainer is garbage in cycles, which the next contender should not pay for
        assert timed.tokens == rows.tokens, "a contender went through other tokens than the sample holds"
    return timed


if __name__ == "__main__":
    sys.exit(main())
