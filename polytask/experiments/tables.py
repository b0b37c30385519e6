"""A comparison as CSV, Markdown and LaTeX."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

ALPHA = 0.05  # a corrected p below it is marked
PLUS_MINUS = r" \pm "
TEX_SIGNS = {"_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$"}


def task_names(document: Mapping[str, Any]) -> list[str]:
    """The tasks of a comparison, and `mean` where there is one."""
    recipes = list(document["recipes"].values())
    if not recipes:
        return []
    names = list(recipes[0]["tasks"])
    return [*names, "mean"] if len(names) > 1 and recipes[0]["mean"] is not None else names


def found(recipe: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Mean and standard error of a task, or of the mean over tasks."""
    values: dict[str, Any] = recipe["mean"] if task == "mean" else recipe["tasks"][task]
    return values


def mark(document: Mapping[str, Any], recipe: str, task: str) -> str:
    """`+` or `-` where a recipe is better or worse than the baseline beyond chance, by Holm's correction."""
    for test in document["tests"]:
        if test["recipe"] == recipe and test["task"] == task and test["p_holm"] < ALPHA:
            return "+" if test["gain"] > 0 else "-"
    return ""


def score(values: Mapping[str, Any], between: str = " ± ") -> str:
    """0.4873 ± 0.0021; without an error where there was one run only."""
    error = values["standard_error"]
    return f"{values['mean']:.4f}" + ("" if error is None else f"{between}{error:.4f}")


def score_rows(document: Mapping[str, Any], between: str = " ± ") -> list[list[str]]:
    """A line a recipe: its name, scores, runs, parameters, seconds and tokens."""
    tasks = task_names(document)
    rows = []
    for name, recipe in document["recipes"].items():
        cells = [
            f"{score(found(recipe, task), between)} {mark(document, name, task)}".strip() for task in tasks
        ]
        size = recipe["parameters"]
        costs = [
            f"{size:,}" if size is not None else "",
            f"{recipe['seconds']:,.{0 if recipe['seconds'] >= 100 else 1}f}",
            f"{recipe['tokens']:,}",
        ]
        rows.append([name, *cells, str(len(recipe["runs"])), *costs])
    return rows


def score_heads(document: Mapping[str, Any]) -> list[str]:
    """The heads of `score_rows`."""
    return ["recipe", *task_names(document), "runs", "parameters", "seconds", "tokens"]


TEST_HEADS = ["recipe", "task", "gain", "95 % from", "to", "p", "p (Holm)", "exact", "p", "p (Holm)"]


def tested_rows(document: Mapping[str, Any]) -> list[list[str]]:
    """A line a test against the baseline."""
    rows = []
    for test in document["tests"]:
        exact = test.get("exact")
        beside = [exact["test"], p_value(exact["p"]), p_value(exact["p_holm"])] if exact else ["", "", ""]
        numbers = [f"{test[key]:+.4f}" for key in ("gain", "low", "high")]
        rows.append(
            [test["recipe"], test["task"], *numbers, p_value(test["p"]), p_value(test["p_holm"]), *beside]
        )
    return rows


def p_value(value: float) -> str:
    """A p to two figures."""
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"


def notes(document: Mapping[str, Any]) -> list[str]:
    """What a reader has to know of the tables."""
    lines = ["Dev scores, mean ± standard error over seeds."]
    if document["tests"]:
        lines[0] += (
            f" + and - mark what is better or worse than {document['baseline']} (paired bootstrap "
            f"over dev rows, p < {ALPHA:g} after Holm's correction over all tests)."
        )
    if document["left"]:
        runs = ", ".join(f"{run['recipe']} seed {run['seed']}" for run in document["left"])
        lines.append(f"Not finished: {runs}.")
    lines += [f"Failed: {run}: {message}" for run, message in document["failed"].items()]
    return lines


def to_csv(document: Mapping[str, Any]) -> str:
    """A line a recipe and task, numbers unrounded."""
    tests = {(test["recipe"], test["task"]): test for test in document["tests"]}
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    tested = ["gain", "low", "high", "p", "p_holm"]
    beside = ["exact_test", "exact_p", "exact_p_holm"]
    costs = ["parameters", "seconds", "tokens"]
    writer.writerow(["recipe", "task", "metric", "mean", "standard_error", "runs", *tested, *beside, *costs])
    for name, recipe in document["recipes"].items():
        for task in task_names(document):
            values, test = found(recipe, task), tests.get((name, task), {})
            exact = test.get("exact", {})
            numbers = [values["mean"], values["standard_error"], values["runs"]]
            numbers += [test.get(key) for key in tested]
            numbers += [exact.get(key) for key in ("test", "p", "p_holm")]
            numbers += [recipe[key] for key in costs]
            writer.writerow([name, task, values.get("metric", "mean"), *numbers])
    return file.getvalue()


def to_markdown(document: Mapping[str, Any]) -> str:
    """Two tables, and what a reader has to know of them."""
    parts = [_markdown(score_heads(document), score_rows(document)), "\n\n".join(notes(document))]
    if document["tests"]:
        parts += [f"Against {document['baseline']}:", _markdown(TEST_HEADS, tested_rows(document))]
    return "\n\n".join(parts) + "\n"


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def to_latex(document: Mapping[str, Any]) -> str:
    """A table for a paper, with the rules of booktabs."""
    tasks = task_names(document)
    heads = " & ".join(map(_tex, ["recipe", *tasks, "parameters"]))
    lines = [f"\\begin{{tabular}}{{l{'r' * (len(tasks) + 1)}}}", "\\toprule", f"{heads} \\\\", "\\midrule"]
    for name, recipe in document["recipes"].items():
        cells = [_tex(name)]
        for task in tasks:
            sign = mark(document, name, task)
            raised = f"^{{{sign}}}" if sign else ""
            cells.append(f"${score(found(recipe, task), PLUS_MINUS)}{raised}$")
        size = recipe["parameters"]
        cells.append(f"{size:,}" if size is not None else "")
        lines.append(f"{' & '.join(cells)} \\\\")
    comments = [f"% {' '.join(line.split())}" for line in notes(document)]
    return "\n".join([*comments, *lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def _tex(text: str) -> str:
    return "".join(TEX_SIGNS.get(sign, sign) for sign in text)
