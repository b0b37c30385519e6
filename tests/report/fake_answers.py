"""Answers to dev rows as a run folder keeps them, with the data files that they are of."""

import csv
import json
import random
from pathlib import Path

from fake_run import write_run

HEAD = 'encoder = "minilm"\n\n'
TASK = """[tasks.{name}]
kind = "{kind}"
train = "{name}.csv"
dev = "{name}.csv"
{more}
"""
PHASE = "[[phases]]\nepochs = 1\n"


def write_answered(folder: Path, tasks: dict[str, str], rows: int = 60, labels: int = 3) -> Path:
    """A finished run of tasks (name -> kind) with answers of which some are wrong, and their data."""
    write_run(folder, list(tasks), updates=20)
    names = [f"label {number}" for number in range(labels)]
    more = {"regression": "range = [0, 5]", "multilabel": f"labels = {json.dumps(names)}"}
    parts = [TASK.format(name=name, kind=kind, more=more.get(kind, "")) for name, kind in tasks.items()]
    (folder / "recipe.toml").write_text(HEAD + "\n".join(parts) + PHASE, encoding="utf-8")
    for number, (name, kind) in enumerate(tasks.items()):
        source = random.Random(number)
        write_task(folder, name, [_row(kind, names, source, row) for row in range(rows)], names)
    return folder


def write_task(
    folder: Path, name: str, rows: list[tuple[str, str, str, str, list[float]]], labels: list[str]
) -> None:
    """A task's data file and predictions from rows of id, text, target, answer and probabilities."""
    (folder / "predictions").mkdir(exist_ok=True)
    with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["id", "text", "label"], *([row[0], row[1], row[2]] for row in rows)])
    shares = [f"p({label})" for label in labels] if rows[0][4] else []
    with (folder / "predictions" / f"{name}-dev.csv").open("w", encoding="utf-8", newline="") as file:
        lines = [
            [place, row[0], row[2], row[3], *(f"{share:.6f}" for share in row[4])]
            for place, row in enumerate(rows)
        ]
        csv.writer(file).writerows([["row", "id", "target", "answer", *shares], *lines])


def _row(
    kind: str, labels: list[str], source: random.Random, row: int
) -> tuple[str, str, str, str, list[float]]:
    text = f"text {row} of many"
    if kind == "regression":
        value = source.uniform(0, 5)
        return f"i{row}", text, f"{value:.6g}", f"{min(5, max(0, source.gauss(value, 1))):.6g}", []
    if kind == "multilabel":
        shares = [source.random() for _ in labels]
        given = [label for label, share in zip(labels, shares, strict=True) if share >= 0.5]
        held = [label for label in labels if source.random() < 0.5]
        return f"i{row}", text, ",".join(held), ",".join(given), shares
    weights = [source.random() ** 3 for _ in labels]
    shares = [weight / sum(weights) for weight in weights]
    answer = labels[max(range(len(labels)), key=lambda place: shares[place])]
    true = answer if source.random() < 0.6 else source.choice(labels)
    return f"i{row}", text, true, answer, shares
