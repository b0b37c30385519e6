"""The model card: what a model folder's README says about the model, to people and to a hub."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from polytask.recipe import Recipe
from polytask.tasks import Task

# The encoder's name on the hub and its licence, where a recipe's word says which one it is.
KNOWN_ENCODERS = {"minilm": ("sentence-transformers/all-MiniLM-L6-v2", "apache-2.0")}
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
# The names that the hub's own lists use for our metrics.
HUB_METRICS = {"pearson": "pearsonr", "spearman": "spearmanr", "matthews": "matthews_correlation"}


def model_card(recipe: Recipe, tasks: Mapping[str, Task], scores: Mapping[str, Any]) -> str:
    """Markdown that names the tasks, their labels and scores, how to predict, and what to beware of."""
    lines = [
        *_front_matter(recipe, tasks, scores),
        "# One encoder, " + ("one task" if len(tasks) == 1 else f"{len(tasks)} tasks"),
        "",
        f"Fine-tuned from `{_plain(recipe.encoder)}` with polytask.",
        "",
        *_task_table(recipe, tasks, scores),
        *_usage(tasks),
        *_calibration(tasks, scores),
        *_limits(recipe, tasks),
    ]
    return "\n".join(lines)


def _front_matter(recipe: Recipe, tasks: Mapping[str, Task], scores: Mapping[str, Any]) -> list[str]:
    """What a hub reads: YAML, whose strings are written as JSON's are."""
    base, licence = KNOWN_ENCODERS.get(recipe.encoder, (recipe.encoder, None))
    values: dict[str, Any] = {"library_name": "polytask", "pipeline_tag": "text-classification"}
    if licence is not None:
        values["license"] = licence
    if HUB_NAME.fullmatch(base) and not (recipe.base / base).exists():
        values["base_model"] = base
    values["tags"] = ["polytask", "multi-task", "text-classification"]
    values["metrics"] = sorted({HUB_METRICS.get(task.metric, task.metric) for task in tasks.values()})
    results = [
        {
            "task": {"type": "text-classification", "name": name},
            "dataset": {"type": "dev-rows", "name": f"{name} dev"},
            "metrics": [{"type": item["metric"], "value": item["score"]}],
        }
        for name, item in scores["tasks"].items()
    ]
    if results:
        values["model-index"] = [{"name": recipe.name, "results": results}]
    return ["---", *(f"{key}: {json.dumps(value)}" for key, value in values.items()), "---", ""]


def _task_table(recipe: Recipe, tasks: Mapping[str, Task], scores: Mapping[str, Any]) -> list[str]:
    lines = [
        "| task | kind | input | answers | trained on | metric | dev score | without an encoder |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, task in tasks.items():
        found = scores["tasks"].get(name, {})
        answers = ", ".join(_plain(label) for label in task.labels) if task.labels else _range(task)
        shown = f"{found['score']:.4f} ({found['rows']:,} rows)" if found else "not measured"
        baseline = max(found.get("baselines", {}).values(), default=None)
        if baseline is not None and task.metric == "mse":
            baseline = min(found["baselines"].values())
        written = recipe.tasks.get(name)
        source = _plain(Path(written.train).name) if written is not None else ""
        kind = "pair" if task.texts == 2 else "sentence"
        cells = [name, task.kind, kind, answers, source, task.metric, shown]
        lines.append(f"| {' | '.join([*cells, '' if baseline is None else f'{baseline:.4f}'])} |")
    return [*lines, ""]


def _usage(tasks: Mapping[str, Task]) -> list[str]:
    first = next(iter(tasks.values()))
    example = '[("A man plays.", "Someone is playing.")]' if first.texts == 2 else '["A fine example."]'
    return [
        "## Use",
        "",
        "```python",
        "import polytask as pt",
        "",
        'model = pt.load("path/to/this/folder")',
        f"model.predict({json.dumps(first.name)}, {example})",
        "```",
        "",
        "```console",
        "$ polytask predict path/to/this/folder rows.csv --out answers.jsonl",
        "```",
        "",
    ]


def _calibration(tasks: Mapping[str, Task], scores: Mapping[str, Any]) -> list[str]:
    found = {name: item["calibration"] for name, item in scores["tasks"].items() if "calibration" in item}
    if not found:
        return []
    lines = [
        "## Calibration",
        "",
        "Outputs are divided by a temperature that was fitted on the dev rows. The calibration error "
        "is the mean distance of confidence from the share of right answers, the temperature of one half of "
        "the rows measured on the other.",
        "",
        "| task | temperature | error without | error with |",
        "|---|---|---|---|",
    ]
    for name, item in found.items():
        lines.append(
            f"| {name} | {item['temperature']:.3f} | {item['error_before']:.4f} | {item['error_after']:.4f} |"
        )
    plain = [name for name, task in tasks.items() if name not in found and task.labels]
    if plain:
        lines += ["", f"Not calibrated: {', '.join(plain)}."]
    return [*lines, ""]


def _limits(recipe: Recipe, tasks: Mapping[str, Task]) -> list[str]:
    lines = [
        "## Limits",
        "",
        f"- Texts are cut at {recipe.max_length} tokens.",
        f"- {_about_dev(recipe)}",
        "- Texts unlike those it was trained on get an answer too, and often a confident one.",
    ]
    if any(task.kind == "regression" for task in tasks.values()):
        lines.append("- A value never leaves the range that its task was trained on.")
    return [*lines, ""]


def _range(task: Task) -> str:
    return "" if task.range is None else f"{task.range[0]:g} to {task.range[1]:g}"


def _about_dev(recipe: Recipe) -> str:
    if recipe.train_on_dev:
        return "The dev rows were trained on, so nothing here measures the model."
    return "The dev rows that are scored also chose the epoch, which flatters the scores a little."


def _plain(text: str) -> str:
    """Text that cannot break out of a table cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
