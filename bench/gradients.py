"""What combining gradients costs beside plain joint training: `python -m bench.gradients`.

Each measurement is a fresh process (`bench.conflict`), and another contender comes first in each round.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from bench.conflict import CONTENDERS, Setting
from bench.machine import describe_machine
from polytask.console import print_table

RESULTS = Path(__file__).parent / "results" / "gradients.json"
BASELINE = "plain joint"
PEERS = ("flat PCGrad", "torchjd")
ON_BASE = (BASELINE, "lean", "fast", "fast bf16", *PEERS)
Measured = dict[str, list[dict[str, Any]]]


def measure(setting: Setting, names: Sequence[str], rounds: int) -> Measured:
    """Every contender once a round."""
    measured: Measured = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in [*names[first:], *names[:first]]:
            command = [sys.executable, "-m", "bench.conflict", name, json.dumps(asdict(setting))]
            ran = subprocess.run(command, check=True, capture_output=True, text=True)
            measured[name].append(json.loads(ran.stdout))
            print(f"round {number + 1} of {rounds}: {name}", file=sys.stderr)
    return measured


def summarise(measured: Measured) -> dict[str, dict[str, float]]:
    """Medians of each contender, and its ratios to plain joint training: medians of those within a round."""

    def seconds(run: Mapping[str, Any], clock: str) -> float:
        return median(run[clock])

    found = {}
    for name, runs in measured.items():
        beside = list(zip(runs, measured[BASELINE], strict=True))
        found[name] = {
            "seconds": median(seconds(run, "seconds") for run in runs),
            "time": median(seconds(run, "seconds") / seconds(plain, "seconds") for run, plain in beside),
            "cpu": median(seconds(run, "cpu") / seconds(plain, "cpu") for run, plain in beside),
            "peak": median(run["peak"] for run in runs) / 2**20,
            "memory": median(run["peak"] / plain["peak"] for run, plain in beside),
        }
    return found


def report(setting: Setting, found: Mapping[str, Mapping[str, float]]) -> None:
    """A line a contender."""
    print(
        f"\n{setting.encoder}, {setting.tasks} tasks, {setting.batch} rows of {setting.length} tokens each, "
        f"{setting.updates} updates a process"
    )
    rows = [
        [
            name,
            f"{item['seconds']:.3f}",
            f"{item['time']:.2f}",
            f"{item['cpu']:.2f}",
            f"{item['peak']:,.0f}",
            f"{item['memory']:.2f}",
        ]
        for name, item in found.items()
    ]
    print_table(["", "s an update", "/ plain", "CPU / plain", "peak MiB", "/ plain"], rows)
    peers = [found[name]["time"] for name in PEERS if name in found]
    if peers and "fast" in found:
        print(
            f"fast is {min(peers) / found['fast']['time']:.2f}x as fast as the better of {', '.join(PEERS)}"
        )


def main() -> int:
    """Measure, print and keep the results."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--updates", type=int, default=8)
    options.add_argument("--length", type=int, default=32)
    options.add_argument("--only", choices=["minilm", "base"])
    chosen = options.parse_args()
    settings = {
        "minilm": [Setting("minilm", 3, 32, chosen.length, chosen.updates)],
        "base": [Setting("base", tasks, 16, chosen.length, max(2, chosen.updates // 2)) for tasks in (3, 8)],
    }
    results = []
    for encoder in [chosen.only] if chosen.only else settings:
        for setting in settings[encoder]:
            names = list(CONTENDERS) if encoder == "minilm" else ON_BASE
            found = summarise(measure(setting, names, chosen.rounds))
            report(setting, found)
            results.append({"setting": asdict(setting), "contenders": found})
    RESULTS.parent.mkdir(exist_ok=True)
    document = {"machine": describe_machine(), "results": results}
    RESULTS.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
