"""What each task answered on its dev rows: confidence, labels, confusion and the worst errors."""

from html import escape
from pathlib import Path
from typing import final

from polytask.errors import UserError
from polytask.recipe import Recipe
from polytask.report import confusion, errors
from polytask.report.answers import Answered, read_answers
from polytask.report.diagnosis import reliability, worst
from polytask.report.document import Document, key
from polytask.report.read import Run
from polytask.report.texts import find_texts
from polytask.report.words import decimal, whole

MAX_OPEN = 6  # tasks; where there are more, each is folded
MAX_PARTS = 60  # tasks
MAX_ERRORS, MOST_ERRORS, LEAST_ERRORS = 240, 40, 6  # of a page, of one task, and of one of many tasks


def answer_sections(run: Run, document: Document) -> str:
    """A part for each task whose answers the run folder holds; nothing if it holds none."""
    recipe = _recipe(run)
    if run.folder is None or recipe is None:
        return ""
    found = {
        task: answered
        for task in run.tasks[:MAX_PARTS]
        if task in recipe.tasks
        and (answered := read_answers(_file(run.folder, task), recipe.tasks[task].kind)) is not None
    }
    parts = [
        _Part(run, recipe, document, task, len(found)).html(answered) for task, answered in found.items()
    ]
    if not parts:
        return ""
    open_ = len(parts) <= MAX_OPEN
    left = len(run.tasks) - MAX_PARTS
    more = f'<p class="hint">{left:,} more tasks are left out here.</p>' if left > 0 else ""
    shown = "".join(
        f'<details class="part"{" open" if open_ else ""}><summary><h3>{escape(task)}</h3>'
        f"<span>{escape(says)}</span></summary>{body}</details>"
        for task, (says, body) in zip(found, parts, strict=True)
    )
    return f"{document.heading('Answers on dev rows')}{shown}{more}"


def _file(folder: Path, task: str) -> Path:
    return folder / "predictions" / f"{task}-dev.csv"


def _recipe(run: Run) -> Recipe | None:
    if run.folder is None or run.recipe is None:
        return None
    try:
        return Recipe.load(run.folder / "recipe.toml")
    except (UserError, OSError):  # of another version, or damaged
        return None


@final
class _Part:
    """One task's part of the page."""

    def __init__(self, run: Run, recipe: Recipe, document: Document, task: str, num_parts: int) -> None:
        self.run, self.recipe, self.document = run, recipe, document
        self.task, self.num_parts = task, num_parts

    def html(self, found: Answered) -> tuple[str, str]:
        """What the part says in a line, and its cards."""
        cards = self._charts(found) + self._labels(found)
        grid = f'<div class="grid">{cards}</div>' if cards else ""
        return _summary(found), grid + self._confused(found) + self._errors(found)

    def _charts(self, found: Answered) -> str:
        if found.kind == "regression":
            scatter = self.document.place("value_scatter", found, self.num_parts)
            balance = self.document.place("value_balance", found)
            marks = key([("model", "Answered"), ("baseline", "True on dev")], "box")
            return _card("Answers and truth", "Each dot is a row; on the line it is right.", scatter) + _card(
                "How often each value", "Shares of the dev rows.", balance and marks + balance
            )
        return self._reliability(found)

    def _reliability(self, found: Answered) -> str:
        score = self.run.scores.tasks.get(self.task) if self.run.scores else None
        calibration = score.calibration if score else None
        before = reliability(found, calibration.temperature) if calibration else []
        drawn = self.document.place("reliability_chart", reliability(found), before)
        says = "Of answers given with 80% about 80% should be right. Larger dots stand for more rows."
        if calibration:
            says += (
                f" Temperature {decimal(calibration.temperature, 2)}; mean error"
                f" {calibration.error_before:.1%} without it, {calibration.error_after:.1%} with it."
            )
        marks = [("model", "As answered")] + ([("dashed baseline", "Without temperature")] if before else [])
        return _card("Confidence", says, drawn and key(marks) + drawn)

    def _labels(self, found: Answered) -> str:
        if not found.labels:
            return ""
        done = self.run.done
        train = done.classes.get(self.task, {}) if done else {}
        drawn = self.document.place("balance_chart", found, train)
        marks = [("model", "Answered"), ("baseline", "True on dev")] + [("floor", "On train")] * bool(train)
        return _card("Labels", "How often each occurs.", drawn and key(marks, "box") + drawn)

    def _confused(self, found: Answered) -> str:
        if not found.labels:
            return ""
        scores = _card("Label by label", "", confusion.by_label(found))
        if found.kind == "multilabel":
            return f'<div class="after">{scores}</div>'
        if len(found.labels) <= confusion.MAX_MATRIX:
            says = "Rows: what is true. Columns: what was answered. A shade is the share of its row."
            shown = _card("Confusion", says, confusion.matrix(found))
        else:
            shown = _card("Commonest confusions", "", confusion.pairs(found))
        wide = confusion.WIDE < len(found.labels) <= confusion.MAX_MATRIX
        return f'<div class="{"stack" if wide else "grid"} after">{shown}{scores}</div>'

    def _errors(self, found: Answered) -> str:
        most = max(LEAST_ERRORS, min(MOST_ERRORS, MAX_ERRORS // self.num_parts))
        mistakes = worst(found, most)
        if not mistakes:
            return '<div class="card after"><h4>Worst errors</h4><p class="says">None.</p></div>'
        places = {mistake.row for mistake in mistakes}
        texts = find_texts(self.recipe.tasks[self.task], self.recipe.base, found, places)
        says = {
            "classification": "Wrong answers that the model was surest of, and some of each confusion.",
            "multilabel": "Rows whose probabilities are furthest off, on average over the labels.",
            "regression": "Rows whose answer is furthest off.",
        }[found.kind]
        if len(texts) < len(places):
            gone, file = len(places) - len(texts), self.recipe.tasks[self.task].dev
            some = "The texts" if not texts else f"{gone} of the texts"
            says += f" {some} are not shown: {file} does not hold these rows any more."
        table = errors.errors_table(found, mistakes, texts)
        return (
            f'<div class="card after" data-errors><h4>Worst errors</h4><p class="says">{escape(says)}</p>'
            f"{errors.controls(found, mistakes)}{table}{errors.printed(len(mistakes))}</div>"
        )


def _card(title: str, says: str, inside: str) -> str:
    note = f'<p class="says">{escape(says)}</p>' if says else ""
    return f'<div class="card"><h4>{title}</h4>{note}{inside}</div>' if inside else ""


def _summary(found: Answered) -> str:
    rows = f"{whole(len(found.ids))} rows" if found.whole else f"the first {whole(len(found.ids))} rows"
    if found.kind == "regression":
        off = float(abs(found.answers - found.targets).mean())
        return f"{rows}, {decimal(off, 2)} off on average"
    text = f"{whole(int(found.wrong.sum()))} of {rows} wrong"
    if found.kind == "classification" and (most := confusion.most_confused(found)):
        text += f"; most often {most[0]} taken for {most[1]} ({whole(most[2])})"
    return text
