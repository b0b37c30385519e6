"""A run folder as training would leave it; `python tests/report/fake_run.py FOLDER [TASKS] [PHASES]`."""

import json
import math
import random
import sys
from pathlib import Path
from typing import Any

KINDS = {
    "sst": ("accuracy", 1.55, 0.49, {"majority": 0.266, "tfidf": 0.399}, 1101, 7443),
    "quora": ("accuracy", 0.66, 0.863, {"majority": 0.627, "tfidf": 0.76}, 3000, 13997),
    "sts": ("pearson", 3.2, 0.842, {"majority": 0.0, "tfidf": 0.693}, 863, 5177),
    "banking-intents": ("f1_macro", 4.1, 0.913, {"majority": 0.0, "tfidf": 0.84}, 3080, 10003),
    "sms_spam": ("matthews", 0.45, 0.97, {"majority": 0.0, "tfidf": 0.94}, 557, 5017),
    "question-type": ("accuracy", 1.6, 0.95, {"majority": 0.22, "tfidf": 0.86}, 500, 5452),
    "valence": ("mse", 2.9, 0.71, {"majority": 1.61, "tfidf": 1.02}, 1061, 9544),
}
ALSO = {
    "accuracy": ("f1", "f1_macro", "matthews"),
    "f1_macro": ("accuracy", "f1", "matthews"),
    "matthews": ("accuracy", "f1", "f1_macro"),
    "pearson": ("spearman", "mse"),
    "mse": ("pearson", "spearman"),
}
RECIPE = """encoder = "minilm"
max_length = 128
seed = 1

[tasks.{task}]
kind = "classification"
train = "{task}-train.csv"
dev = "{task}-dev.csv"

[[phases]]
train = "all"
epochs = 3
batch_size = 32
lr = 5e-5
sampler = "annealed"
"""


def write_run(folder: Path, tasks: list[str], updates: int = 833, phases: int = 1) -> Path:
    """Write recipe.toml, events.jsonl and scores.json of a finished run of `phases` times three epochs."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = {task: KINDS.get(task) or list(KINDS.values())[n % len(KINDS)] for n, task in enumerate(tasks)}
    recipe = "\n".join(RECIPE.format(task=task) for task in tasks)
    (folder / "recipe.toml").write_bytes(recipe.encode("utf-8", errors="replace"))
    events = [event for phase in range(phases) for event in _phase_events(facts, updates, phase, phases)]
    seconds, tokens = updates * 3 * phases * 0.31, updates * 3 * phases * 1210
    done: dict[str, Any] = {"event": "done", "seconds": seconds, "tokens": tokens, "encoder": "minilm"}
    done |= {"tokens_per_second": tokens / seconds, "parameters": 22713216, "model_parameters": 22716681}
    done["rows"] = {task: {"train": fact[5], "dev": fact[4]} for task, fact in facts.items()}
    done["drawn"] = {task: {"rows": updates * 96 * phases // len(tasks)} for task in tasks}
    lines = [json.dumps(event) for event in [*events, done]]
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    scores = {}
    for task, (metric, _, score, baselines, rows, _) in facts.items():
        metrics = {metric: score} | {name: score - 0.011 * n for n, name in enumerate(ALSO[metric], 1)}
        final_score = {"metric": metric, "score": score, "rows": rows}
        scores[task] = final_score | {"metrics": metrics, "baselines": baselines}
    mean = sum(fact[2] for fact in facts.values()) / len(facts)
    final = {"tasks": scores, "mean": mean, "best": {"phase": phases - 1, "epoch": 3}}
    (folder / "scores.json").write_text(json.dumps(final), encoding="utf-8")
    return folder


def _phase_events(facts: dict[str, Any], updates: int, phase: int, phases: int) -> list[dict[str, Any]]:
    """One phase of three epochs, annealed from proportional to nearly even shares."""
    rng, events = random.Random(phase), []
    schedule = []
    for epoch in (1, 2, 3):
        weights = {task: fact[5] ** (1 - 0.8 * (epoch - 1) / 2) for task, fact in facts.items()}
        total = sum(weights.values())
        schedule.append({"epoch": epoch, "share": {task: weight / total for task, weight in weights.items()}})
    plan = {"event": "phase", "phase": phase, "train": ["heads", "all"][phase % 2] if phases > 1 else "all"}
    events.append(plan | {"tasks": list(facts), "epochs": 3, "updates": updates * 3, "schedule": schedule})
    whole, last = updates * 3, updates * 3 * phases
    for step in range(1, whole + 1):
        at, epoch = phase * whole + step, (step - 1) // updates + 1
        clock = {"phase": phase, "update": at, "epoch": epoch, "seconds": at * 0.31, "tokens": at * 1210}
        rate = 5e-5 * min(step / (0.1 * whole), (whole - step) / (0.9 * whole))
        if step % 10 == 0 or whole < 50:
            losses = {}
            for task in rng.sample(list(facts), min(len(facts), 2)):
                first = facts[task][1]
                losses[task] = first * (0.3 + 0.7 * math.exp(-3 * at / last)) * math.exp(rng.gauss(0, 0.22))
            events.append({"event": "update", **clock, "lr": rate, "losses": losses})
        if step % updates == 0:
            done = 1 - math.exp(-4 * at / last)
            scores = {}
            for task, fact in facts.items():
                start = fact[3]["majority"]
                scores[task] = start + (fact[2] - start) * done / (1 - math.exp(-4))
            mean = sum(scores.values()) / len(scores)
            events.append({"event": "evaluate", **clock, "scores": scores, "mean": mean, "best": True})
    return events


if __name__ == "__main__":
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    names = [*KINDS][:count] + [f"task-{n}" for n in range(len(KINDS), count)]
    write_run(Path(sys.argv[1]), names, phases=int(sys.argv[3]) if len(sys.argv) > 3 else 1)
