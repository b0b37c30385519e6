"""What is forgotten when tasks come one after another: `python -m bench.continual`.

SST, then Quora, then STS, on MiniLM, with one number of updates a task: the encoder is trained on without a
memory, with GEM, A-GEM or replay, or left as it is (adapters). Each seed trains SST once, and every method
goes on from there by `add_task`. What docs/results/continual.json holds already is not made again.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast

from bench.quora import SHARED_DATA, find_quora
from polytask import api
from polytask.console import print_table, stdout
from polytask.data.known import FOLDER_VARIABLE, KNOWN_SETS
from polytask.recipe import Recipe
from polytask.train.merge import Mode

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results" / "continual.json"
ORDER = ("sst", "quora", "sts")
OLD = ORDER[:-1]  # what the last stage may have harmed
MEMORY = {"rows": 256, "batch_size": 32}  # kept of each task; in an update, of all old tasks together
DEV_ROWS = 800  # of each task: the same for all methods, and every stage scores all tasks
METHODS = ("naive", "replay", "gem", "agem", "adapter")
NAMES = {"naive": "naive", "gem": "GEM", "agem": "A-GEM", "replay": "replay", "adapter": "adapters (PAL)"}


def dev_file(task: str, folder: Path) -> Path:
    """The first dev rows of a task."""
    source = Path(os.environ[FOLDER_VARIABLE]) / KNOWN_SETS[f"cs224n/{task}"].files["dev"]
    path = folder / f"{task}-dev.csv"
    folder.mkdir(parents=True, exist_ok=True)
    with source.open(encoding="utf-8", newline="") as file:
        path.write_text("".join(islice(file, DEV_ROWS + 1)), encoding="utf-8", newline="")
    return path


def recipe_of(task: str, method: str, seed: int, updates: int, folder: Path) -> Recipe:
    """The recipe of one stage."""
    phase: dict[str, Any] = {"epochs": 1, "steps_per_epoch": updates, "batch_size": 32, "lr": 1e-4}
    phase["memory"] = {"kind": "keep", "rows": MEMORY["rows"]}
    values: dict[str, Any] = {"keep": "last", "seed": seed, "bad_rows": "skip", "checkpoints": 1}
    if method in ("replay", "gem", "agem"):
        phase["memory"] = {"kind": method, **MEMORY}
    if method == "adapter":
        phase |= {"train": "adapters", "lr": 1e-3}  # nothing pretrained moves
        values["adapter"] = "pal"
    written = {"train": f"cs224n/{task}", "dev": str(dev_file(task, folder)), "test": None}
    return Recipe.from_dict({**values, "tasks": {task: written}, "phases": [phase]})


def train_stage(before: Path | None, task: str, method: str, seed: int, updates: int, folder: Path) -> Path:
    """One more task; a stage that was finished before is taken as it is."""
    run = folder / f"{seed}-{method}-{task}"
    if (run / "finished").exists():
        return run
    shutil.rmtree(run, ignore_errors=True)
    recipe = recipe_of(task, "naive" if before is None else method, seed, updates, folder)
    if before is None:
        api.train(recipe, run)
    else:
        api.add_task(before, recipe, run, mode=cast(Mode, method))
    shutil.rmtree(run / "checkpoints")  # half a gigabyte
    (run / "finished").touch()
    return run


def measure(method: str, seed: int, updates: int, folder: Path) -> dict[str, Any]:
    """All stages of a method: the score matrix, what was lost, and the training time of each stage."""
    run = train_stage(None, ORDER[0], "first", seed, updates, folder)
    seconds, changed = [_seconds(run)], {}
    for task in ORDER[1:]:
        run = train_stage(run, task, method, seed, updates, folder)
        seconds.append(_seconds(run))
    scores = json.loads((run / "scores.json").read_bytes())
    changed = {name: item["changed_rows"] for name, item in scores["earlier_tasks"].items()}
    transfer = scores["transfer"]
    for task in ORDER[1:]:
        shutil.rmtree(folder / f"{seed}-{method}-{task}")
    return {
        "method": method,
        "seed": seed,
        "updates": updates,
        "stages": [stage["scores"] for stage in transfer["stages"]],
        "backward": transfer["backward"],
        "changed_rows": changed,  # by the last stage, of 256 remembered ones
        "seconds": seconds,
    }


def _seconds(run: Path) -> float:
    lines = (run / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return next(float(event["seconds"]) for line in lines if (event := json.loads(line))["event"] == "done")


def summarise(results: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """For each method the mean and standard error of what the table shows."""
    by_method = {
        method: {item["seed"]: item for item in results if item["method"] == method} for method in METHODS
    }
    naive = {seed: _lost(item) for seed, item in by_method["naive"].items()}
    summary: dict[str, dict[str, Any]] = {}
    for method, items in by_method.items():
        if not items:
            continue
        finals = [item["stages"][-1] for item in items.values()]
        pairs = [(_lost(item), naive[seed]) for seed, item in items.items() if seed in naive]
        summary[method] = {
            "seeds": len(items),
            **{task: _mean([final[task] for final in finals]) for task in ORDER},
            "mean": _mean([statistics.mean(final[task] for task in ORDER) for final in finals]),
            "lost": _mean([_lost(item) for item in items.values()]),
            "kept": _kept(pairs),
            "seconds": _mean([sum(item["seconds"][1:]) for item in items.values()]),
        }
    return summary


def _lost(item: Mapping[str, Any]) -> float:
    """The mean drop of the earlier tasks from just after they were learned to the end."""
    return -statistics.mean(item["backward"][task] for task in OLD)


def _mean(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and standard error, which one value does not have."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None
    return statistics.mean(values), error


def _kept(pairs: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """The share of naive's loss that a method avoids, from means over the seeds, with a jackknife error."""

    def share(chosen: Sequence[tuple[float, float]]) -> float:
        return 1 - sum(lost for lost, _ in chosen) / sum(naive for _, naive in chosen)

    if len(pairs) < 2:
        return None
    without = [share([*pairs[:place], *pairs[place + 1 :]]) for place in range(len(pairs))]
    middle = statistics.mean(without)
    error = ((len(pairs) - 1) / len(pairs) * sum((value - middle) ** 2 for value in without)) ** 0.5
    return share(pairs), error


def table_of(summary: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The heads and rows of the table in docs/continual.md."""

    def shown(value: tuple[float, float | None] | None, digits: int = 3) -> str:
        if value is None:
            return ""
        error = f" ± {value[1]:.{digits}f}" if value[1] is not None else ""
        return f"{value[0]:.{digits}f}{error}"

    rows = [
        [
            NAMES[method],
            *(shown(item[task]) for task in (*ORDER, "mean", "lost")),
            shown(item["kept"], 2) if method != "naive" else "",
            str(item["seeds"]),
        ]
        for method, item in summary.items()
    ]
    return ["", "SST", "Quora", "STS", "mean", "lost", "kept of what naive loses", "seeds"], rows


def print_summary(summary: Mapping[str, Mapping[str, Any]], markdown: bool) -> None:
    """Show the table to people, or as Markdown."""
    heads, rows = table_of(summary)
    if not markdown:
        print_table(heads, rows)
        return
    for cells in [heads, ["---"] * len(heads), *rows]:
        stdout.print(f"| {' | '.join(cells)} |", soft_wrap=True, markup=False)


def main() -> None:
    """Make what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=100, help="of 32 rows, for each task")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--markdown", action="store_true", help="print the table for docs/continual.md")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--runs", type=Path, default=Path(tempfile.gettempdir()) / "polytask-continual")
    given = parser.parse_args()
    find_quora()
    os.environ.setdefault(FOLDER_VARIABLE, str(SHARED_DATA))
    results = json.loads(given.out.read_text(encoding="utf-8"))["results"] if given.out.exists() else []
    done = {(item["method"], item["seed"]) for item in results if item["updates"] == given.updates}
    for seed in range(1, given.seeds + 1):
        for method in given.methods.split(","):
            if (method, seed) in done:
                continue
            stdout.print(f"seed {seed}, {method}")
            results.append(measure(method, seed, given.updates, given.runs))
            given.out.parent.mkdir(parents=True, exist_ok=True)
            document = {"summary": summarise(results), "results": results}
            given.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print_summary(summarise(results), given.markdown)


if __name__ == "__main__":
    main()
