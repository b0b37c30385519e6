"""A trained run through torch, ONNX and ONNX int8: dev scores, sizes and speed side by side.

python -m bench.exports runs/joint
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.machine import describe_machine
from polytask.console import print_table
from polytask.data.tokens import TokenTable
from polytask.deploy.export import export
from polytask.deploy.labelled import dev_tables, run_recipe
from polytask.deploy.model import Model, load
from polytask.evaluate.scoring import answer_table, score_answers

RESULTS = Path(__file__).parent / "results" / "exports.json"
LARGEST_INT8 = 0.27  # of the fp32 graph
LEAST_SPEED = 1.5  # of int8 against fp32


def main(arguments: list[str] | None = None) -> int:
    """Measure, print and store; 1 where int8 falls short of what it is for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args(arguments)
    recipe = run_recipe(chosen.run)
    if recipe is None:
        parser.error(f"{chosen.run} is no run folder")
    with TemporaryDirectory() as folder:
        told = {
            name: export(chosen.run, "onnx", int8=int8, out=Path(folder) / name, tolerance=1.0)
            for name, int8 in (("onnx fp32", False), ("onnx int8", True))
        }
        models = {
            "torch fp32": load(chosen.run, device="cpu", precision="fp32"),
            "torch": load(chosen.run, device="cpu"),
            **{name: load(Path(folder) / name) for name in told},
        }
        tables = dev_tables(models["torch"], recipe)
        seconds: dict[str, list[float]] = {name: [] for name in models}
        scores: dict[str, dict[str, float]] = {}
        for _ in range(chosen.rounds):
            for name, model in models.items():  # interleaved: a busy moment meets all of them
                started = time.perf_counter()
                scores[name] = _scores(model, tables)
                seconds[name].append(time.perf_counter() - started)
    texts = sum(table.num_rows for table in tables.values())
    speed = {name: texts / median(own) for name, own in seconds.items()}
    rows = [
        [name, f"{speed[name]:,.0f}", *(f"{scores[name][task]:.4f}" for task in tables)] for name in models
    ]
    print_table(["", "texts/s", *tables], rows)
    size = told["onnx int8"]["bytes_graph"] / told["onnx fp32"]["bytes_graph"]
    faster = speed["onnx int8"] / speed["onnx fp32"]
    print(f"int8: {size:.1%} of the size, {faster:.2f}x the texts/s of ONNX in fp32")
    RESULTS.parent.mkdir(exist_ok=True)
    document = {
        "machine": describe_machine(),
        "texts_per_second": speed,
        "scores": scores,
        "checks": {name: item["tasks"] for name, item in told.items()},
        "int8_size": size,
        "int8_speed": faster,
    }
    RESULTS.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return int(size > LARGEST_INT8 or faster < LEAST_SPEED)


def _scores(model: Model, tables: Mapping[str, TokenTable]) -> dict[str, float]:
    found = {}
    for name, table in tables.items():
        answers = answer_table(model.scorer, model.tasks[name], table, model.padder)
        found[name] = score_answers(model.tasks[name], answers, table).score
    return found


if __name__ == "__main__":
    sys.exit(main())
