"""A comparison as one HTML file that fetches nothing."""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from polytask.evaluate.metrics import LESS_IS_BETTER
from polytask.experiments.tables import (
    TEST_HEADS,
    found,
    notes,
    score_heads,
    score_rows,
    task_names,
    tested_rows,
)
from polytask.files import write_bytes
from polytask.report import tables
from polytask.report.document import Document, key
from polytask.report.read import Run, read_run
from polytask.report.words import NUM_COLOURS

MAX_POINTS = 20_000  # of the curves of a page


def write_page(document: Mapping[str, Any], folder: Path, path: Path) -> None:
    """Write the page of a comparison whose runs lie in a folder."""
    page = Document("Comparison")
    runs = {
        name: [read_run(folder / run["folder"]) for run in recipe["runs"]]
        for name, recipe in document["recipes"].items()
    }
    first = f'<div class="card">{_scores(document)}</div>' if runs else ""
    sections = (
        _bars(document, page)
        + _tests(document, page)
        + _curves(document, runs, page)
        + _schedules(runs, page)
        + _stages(runs, page)
    )
    seeds = len(document["seeds"])
    subtitle = f"{len(runs)} recipes, {seeds} seed{'s' * (seeds > 1)}, against {document['baseline']}"
    last = "All scores are on dev rows."
    write_bytes(path, page.html(subtitle, first, sections, last).encode("utf-8", errors="replace"))


def _scores(document: Mapping[str, Any]) -> str:
    heads = [
        head.capitalize() if head in ("recipe", "runs", "parameters", "seconds", "tokens") else head
        for head in score_heads(document)
    ]
    said = "".join(f'<p class="says">{escape(line)}</p>' for line in notes(document))
    return tables.table(heads, score_rows(document)) + said


def _bars(document: Mapping[str, Any], page: Document) -> str:
    cards = []
    for task in reversed(task_names(document)):
        rows = [
            {
                "recipe": name,
                "score": found(recipe, task)["mean"],
                "error": found(recipe, task)["standard_error"],
                "baseline": name == document["baseline"],
            }
            for name, recipe in document["recipes"].items()
        ]
        metric = next(iter(document["recipes"].values()))["tasks"].get(task, {}).get("metric", "over tasks")
        less = ", less is better" if metric in LESS_IS_BETTER else ""
        cards.append(
            _card(task, f"{metric}{less}. The axis does not begin at 0.", page.place("comparison_bars", rows))
        )
    return _section("Scores", f'<div class="grid">{"".join(cards)}</div>' if any(cards) else "", page)


def _tests(document: Mapping[str, Any], page: Document) -> str:
    if not document["tests"]:
        return ""
    says = (
        "Gain: how much better than the baseline; positive is better for every metric. The interval and the "
        "first p are of a paired bootstrap over dev rows, seeds averaged; the exact test is McNemar's for "
        "accuracies and Williams' for correlations, merged over seeds."
    )
    table = tables.table(TEST_HEADS, tested_rows(document), num_texts=2)
    heading = f"Against {document['baseline']}"
    return _section(heading, f'<div class="card"><p class="says">{says}</p>{table}</div>', page)


def _curves(document: Mapping[str, Any], runs: Mapping[str, list[Run]], page: Document) -> str:
    rows = [row for name, all_runs in runs.items() for row in _curve_rows(document, name, all_runs)]
    step = -(-len(rows) // MAX_POINTS) or 1
    names = list(runs)
    colours = [(f"task{number}", name) for number, name in enumerate(names)]
    legend = key(colours) if len(names) <= NUM_COLOURS else ""
    curves = _card(
        "Dev score over time",
        "The mean over tasks, a line a run.",
        page.place("comparison_curves", rows[::step], names),
        legend,
    )
    sizes = [
        {
            "recipe": name,
            "parameters": recipe["parameters"],
            "score": recipe["mean"]["mean"],
            "error": recipe["mean"]["standard_error"],
        }
        for name, recipe in document["recipes"].items()
        if recipe["parameters"] is not None and recipe["mean"] is not None
    ]
    points = _card("Parameters against score", "The mean over tasks.", page.place("comparison_sizes", sizes))
    return _section("Training and size", f"{curves}{points}", page)


def _curve_rows(document: Mapping[str, Any], name: str, runs: list[Run]) -> list[dict[str, Any]]:
    """The evaluations of a recipe's runs, each at the seconds of training that its update was made at."""
    rows = []
    for run, said in zip(runs, document["recipes"][name]["runs"], strict=True):
        updates, seconds = [each.update for each in run.updates], [each.seconds for each in run.updates]
        for each in run.evaluations:
            at = float(np.interp(each.update, updates, seconds)) if updates else 0.0
            rows.append({"recipe": name, "seed": said["seed"], "minutes": at / 60, "score": each.mean})
    return rows


def _schedules(runs: Mapping[str, list[Run]], page: Document) -> str:
    cards = []
    for name, all_runs in runs.items():
        drawn = page.place("schedule_chart", all_runs[0])
        colours = [(f"task{number}", task) for number, task in enumerate(all_runs[0].scheduled)]
        legend = key(colours, "box") if len(colours) <= NUM_COLOURS else ""
        cards.append(_card(name, "Each task's share of the draws.", drawn, legend))
    return _section("Schedules", f'<div class="grid">{"".join(cards)}</div>' if any(cards) else "", page)


def _stages(runs: Mapping[str, list[Run]], page: Document) -> str:
    cards = []
    for name, all_runs in runs.items():
        final = all_runs[0].scores
        if final is None or final.transfer is None:
            continue
        errors = [task for task, score in final.tasks.items() if score.metric in LESS_IS_BETTER]
        drawn = page.place("score_matrix", final.transfer, errors)
        cards.append(_card(name, "Scores after each stage, of the first seed.", drawn))
    return _section("Stages", "".join(cards), page)


def _card(title: str, says: str, drawn: str, legend: str = "") -> str:
    """A chart under its title; nothing if there is nothing to draw."""
    top = f'<h3>{escape(title)}</h3><p class="says">{escape(says)}</p>'
    return f'<div class="card">{top}{legend}{drawn}</div>' if drawn else ""


def _section(title: str, content: str, page: Document) -> str:
    return f"{page.heading(title)}{content}" if content else ""
