"""Measurements to what people read and what scripts read."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from bench.contenders import Timed
from polytask.console import print_table, stdout


def summarise(
    timed: Mapping[str, Sequence[Timed]], peers: Sequence[str], updates: int, bound: float
) -> dict[str, Any]:
    """Medians and spread of each contender, and how it stands to the peers and to the bound in tokens/s.

    A ratio is the median of the ratios within each round, so that a machine that slows down for a while
    slows both sides.
    """
    rates = {name: [one.tokens_per_second for one in runs] for name, runs in timed.items()}
    return {
        name: {
            "tokens_per_second": median(own),
            "least": min(own),
            "most": max(own),
            "rounds": own,
            "milliseconds_per_update": 1000 * median(one.seconds for one in timed[name]) / updates,
            "ratio_to": {
                peer: median(a / b for a, b in zip(own, rates[peer], strict=True)) for peer in peers
            },
            "share_of_bound": median(own) / bound,
        }
        for name, own in rates.items()
    }


def print_results(document: Mapping[str, Any]) -> None:
    """The machine, the bound and one line a contender."""
    machine, setting = document["machine"], document["setting"]
    _say(
        f"{machine['cpu']}, {machine['cores']} cores ({' '.join(machine['flags'])}), "
        f"{machine['threads']} threads, load {machine['load']:.1f} before the start"
    )
    _say(", ".join(f"{name} {machine[name]}" for name in ("torch", "transformers", "accelerate")))
    _say(
        f"{setting['updates']} updates of {setting['batch_size']} Quora pairs, "
        f"{setting['tokens']:,} real tokens, median of {setting['rounds']} rounds; "
        f"polytask's default precision here is {setting['precision']}"
    )
    _say(document["flops_per_token"]["text"])
    for name, rates in document["gemm"].items():
        square, linears = (rates[kind] / 1e9 for kind in ("square", "linears"))
        _say(
            f"GEMM in {name}: {square:.0f} GFLOP/s square, {linears:.0f} as the encoder's linears in training"
        )
    _say(f"Bound at the better bf16 rate: {document['bound']:,.0f} tokens/s\n")
    peers = list(next(iter(document["contenders"].values()))["ratio_to"])
    rows = [
        [
            name,
            f"{item['tokens_per_second']:,.0f}",
            f"{item['least']:,.0f}-{item['most']:,.0f}",
            *(f"{item['ratio_to'][peer]:.2f}" for peer in peers),
            f"{item['share_of_bound']:.0%}",
        ]
        for name, item in document["contenders"].items()
    ]
    header = ["", "tokens/s", "spread", *(f"/ {peer}" for peer in peers), "of bound"]
    print_table(header, rows)


def _say(line: str) -> None:
    stdout.print(line, soft_wrap=True, markup=False)
