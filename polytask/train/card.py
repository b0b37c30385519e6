"""The model card: what a model folder's README says about the model."""

from typing import Any

from polytask.recipe import Recipe
from polytask.tasks import Task


def model_card(recipe: Recipe, tasks: dict[str, Task], scores: dict[str, Any]) -> str:
    """Markdown that names the tasks, their labels and scores, and how to predict with the model."""
    lines = [
        "---",
        "library_name: polytask",
        "tags: [multi-task, text-classification]",
        "---",
        "",
        "# One encoder, " + ("one task" if len(tasks) == 1 else f"{len(tasks)} tasks"),
        "",
        f"Fine-tuned from `{_plain(recipe.encoder)}` with polytask.",
        "",
        "| task | kind | input | answers | metric | dev score |",
        "|---|---|---|---|---|---|",
    ]
    for name, task in tasks.items():
        score = scores["tasks"].get(name)
        answers = ", ".join(_plain(label) for label in task.labels) if task.labels else f"{task.range}"
        shown = f"{score['score']:.4f} ({score['rows']} rows)" if score else "not measured"
        kind = "pair" if task.texts == 2 else "sentence"
        lines.append(f"| {name} | {task.kind} | {kind} | {answers} | {task.metric} | {shown} |")
    first = next(iter(tasks.values()))
    example = '[("A man plays.", "Someone is playing.")]' if first.texts == 2 else '["A fine example."]'
    lines += [
        "",
        "```python",
        "import polytask as pt",
        "",
        'model = pt.load("path/to/this/folder")',
        f'model.predict("{first.name}", {example})',
        "```",
        "",
        f"Texts are cut at {recipe.max_length} tokens. {_about_dev(recipe)}",
        "",
    ]
    return "\n".join(lines)


def _about_dev(recipe: Recipe) -> str:
    if recipe.train_on_dev:
        return "The dev rows were trained on, so nothing here measures the model."
    return "The dev rows that are scored also chose the epoch."


def _plain(text: str) -> str:
    """Text that cannot break out of a table cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
