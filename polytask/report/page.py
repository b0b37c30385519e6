"""The report of a run: what it says, in which order, as one HTML file that fetches nothing."""

import base64
import hashlib
import json
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Any

from polytask.evaluate.metrics import LESS_IS_BETTER
from polytask.files import write_bytes
from polytask.report import tables
from polytask.report.read import Run, read_run
from polytask.report.style import CHART_CONFIG, CSS
from polytask.report.words import (
    ALONE,
    ALONE_COLOUR,
    NUM_COLOURS,
    baseline_colour,
    baseline_name,
    best_baseline,
    decimal,
    duration,
    short,
)

MAX_TASK_CARDS = 60
NO_CHARTS = (
    '<p class="hint">This page has no charts. To add them: '
    "<code>pip install 'polytask[report]'</code>, then <code>polytask report</code> and this folder.</p>"
)
DRAW = """
const data = JSON.parse(document.getElementById("charts").textContent);
const options = { mode: "vega-lite", renderer: "svg", actions: false, ast: true, config: data.config };
if (window.innerWidth < 600) data.config.axis.labelLimit = 90;
const places = document.querySelectorAll("[data-chart]");
for (const place of places) vegaEmbed(place, data.charts[place.dataset.chart], options);
"""


def write_report(run: Path) -> Path:
    """Write `report.html` into a run folder, from what the folder holds so far, and return its path."""
    page = Page(read_run(run)).html()
    path = run / "report.html"
    write_bytes(path, page.encode("utf-8", errors="replace"))  # JSON can hold half of a surrogate pair
    return path


def _charts() -> tuple[ModuleType, ...]:
    """The modules that draw; none where the extra `report` is not installed."""
    try:
        from polytask.report import charts, heatmap
    except ModuleNotFoundError as error:
        if error.name not in ("altair", "vl_convert"):
            raise
        return ()
    return charts, heatmap


class Page:
    """The page of one run; collects the charts that its sections place."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.charts = _charts()
        self.specs: list[dict[str, Any]] = []

    def html(self) -> str:
        """The whole page."""
        sections = "".join((self.scores(), self.stages(), self.course(), self.each_task(), self.details()))
        return self.document(
            self.subtitle(), self.missing() + self.tiles(), sections, "All scores are on dev rows."
        )

    def document(self, subtitle: str, first: str, sections: str, last: str = "") -> str:
        """A page with these parts, and whatever the charts placed in them need."""
        title = escape(self.run.name)
        scripts = self.scripts()
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{policy(scripts)}">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{title} · polytask</title><style>{CSS}</style></head><body><main>"
            f"<header><h1>{title}</h1><p>{escape(subtitle)}</p></header>"
            f"{first}{'' if self.charts else NO_CHARTS}{sections}"
            f"<footer>Written by polytask. {last}</footer></main>"
            f"{self.data()}{''.join(f'<script>{script}</script>' for script in scripts)}</body></html>\n"
        )

    def subtitle(self) -> str:
        """What was trained on what, in a line."""
        encoder = self.run.done.encoder if self.run.done else None
        names = self.run.tasks
        some = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        return f"{encoder or 'One encoder'}, trained on {some}" if names else "Nothing has been trained yet"

    def missing(self) -> str:
        """What the run folder lacks."""
        if not self.run.missing:
            return ""
        items = "".join(f"<li>{escape(line)}</li>" for line in self.run.missing)
        return f'<div class="missing"><b>This run is not complete.</b><ul>{items}</ul></div>'

    def tiles(self) -> str:
        """The few numbers to know first."""
        run, done, tiles = self.run, self.run.done, []
        if run.scores:
            tiles.append(("Mean score", decimal(run.scores.mean), self.kept()))
        elif run.evaluations:
            best = max((each for each in run.evaluations if each.best), key=lambda e: e.update, default=None)
            shown = best or run.evaluations[-1]
            tiles.append(("Mean score so far", decimal(shown.mean), f"at epoch {shown.epoch}"))
        updates = f"{run.updates[-1].update:,} updates" if run.updates else ""
        tiles.append(("Tasks", str(len(run.tasks)), f"in {len(run.phases)} phases" * (len(run.phases) > 1)))
        if done:
            tiles.append(("Training time", duration(done.seconds), updates))
            tiles.append(("Tokens a second", short(done.tokens_per_second), f"{short(done.tokens)} in all"))
            size = done.model_parameters or done.parameters
            if size:
                own = (done.model_parameters or 0) - (done.parameters or size)
                part = f"{short(own)} task-specific" if own > 0 else ""
                tiles.append(("Parameters", short(size), part))
        elif run.updates:
            last = run.updates[-1]
            tiles.append(("Training time so far", duration(last.seconds), updates))
            tiles.append(("Tokens so far", short(last.tokens), ""))
        boxes = "".join(
            f'<div class="tile"><span>{name}</span><b>{value}</b><span>{escape(note)}</span></div>'
            for name, value, note in tiles
        )
        return f'<div class="tiles">{boxes}</div>'

    def kept(self) -> str:
        """Which moment's weights the scores are of."""
        best = self.run.scores.best if self.run.scores else None
        if best is None:
            return "on dev"
        return (
            f"phase {best.phase}, epoch {best.epoch}"
            if len(self.run.phases) > 1
            else f"at epoch {best.epoch}"
        )

    def scores(self) -> str:
        """Final scores against the baselines."""
        if self.run.scores is None:
            return ""
        final = self.run.scores
        marks = [(baseline_colour(key, n), baseline_name(key)) for n, key in enumerate(final.baselines)]
        marks += [(ALONE_COLOUR, ALONE)] if final.single else []
        chart = self.place("score_bars", final)
        bars = (
            f'<div class="card">{_key([("model", "This model"), *marks], "box")}{chart}</div>'
            if chart
            else ""
        )
        return f'<h2>Scores</h2>{bars}<div class="card">{tables.scores(final)}</div>'

    def stages(self) -> str:
        """What each phase did to the tasks of the others."""
        final = self.run.scores
        if final is None or final.transfer is None:
            return ""
        errors = [name for name, task in final.tasks.items() if task.metric in LESS_IS_BETTER]
        drawn = self.place("score_matrix", final.transfer, errors)
        top = (
            '<h3>Scores after each stage</h3><p class="says">The darker, the nearer its column\'s best. '
            f"An edge marks the tasks that the stage trained.</p>{drawn}"
        )
        picture = f'<div class="card">{top}</div>' if drawn else ""
        table = tables.transfer(final.transfer, [*final.tasks])
        earlier = f'<div class="card">{tables.earlier(final.earlier_tasks)}</div>' * bool(final.earlier_tasks)
        return f'<h2>Stages</h2>{picture}<div class="card">{table}</div>{earlier}'

    def course(self) -> str:
        """How training went, over all tasks."""
        mean = self.card("Mean score on dev", "The ring marks the weights kept.", "mean_curve")
        colours = [(f"task{number}", name) for number, name in enumerate(self.run.scheduled)]
        key = _key(colours, "box") if len(colours) <= NUM_COLOURS else ""
        schedule = self.card("Schedule", "Each task's share of the draws.", "schedule_chart", key)
        rate = self.card("Learning rate", "At each update.", "rate_curve")
        planned = tables.phases(self.run.phases)
        table = f'<div class="card">{planned}</div>' if planned else ""
        cards = f'{mean}<div class="grid">{schedule}{rate}</div>{table}'
        return f"<h2>Training</h2>{cards}" if mean or schedule or rate or table else ""

    def card(self, title: str, says: str, chart: str, key: str = "") -> str:
        """A chart of the whole run under its title; nothing if there is nothing to draw."""
        drawn = self.place(chart, self.run)
        top = f'<h3>{title}</h3><p class="says">{says}</p>'
        return f'<div class="card">{top}{key}{drawn}</div>' if drawn else ""

    def each_task(self) -> str:
        """Dev score and training loss of each task by itself."""
        names = self.run.tasks[:MAX_TASK_CARDS]
        cards = "".join(self.task_card(task, len(names)) for task in names)
        if not cards:
            return ""
        left = len(self.run.tasks) - len(names)
        more = f'<p class="hint">{left:,} more tasks are in the tables only.</p>' if left else ""
        marks = [("model", "This model")]
        marks += (
            [("dashed baseline", "Best baseline")] if self.run.scores and self.run.scores.baselines else []
        )
        marks += [("faint model", "Loss of single updates")] if self.run.updates else []
        key = _key(marks)
        return f'<h2>Task by task</h2>{key}<div class="grid small">{cards}</div>{more}'

    def task_card(self, task: str, num_cards: int) -> str:
        """One task's two curves under its name and scores."""
        dev, loss = (
            self.place("task_curve", self.run, task),
            self.place("loss_curve", self.run, task, num_cards),
        )
        if not dev and not loss:
            return ""
        says = ""
        if self.run.scores and task in self.run.scores.tasks:
            final = self.run.scores.tasks[task]
            strongest = best_baseline(final)
            says = f"{final.metric} {decimal(final.score)}"
            says += f" · {baseline_name(strongest[0])} {decimal(strongest[1])}" if strongest else ""
        curves = f'<p class="label">Dev score</p>{dev}' if dev else ""
        curves += f'<p class="label">Training loss</p>{loss}' if loss else ""
        return f'<div class="card"><h3>{escape(task)}</h3><p class="says">{escape(says)}</p>{curves}</div>'

    def details(self) -> str:
        """Every metric, the rows, and the recipe."""
        run, parts = self.run, []
        if run.scores:
            parts.append(f'<h2>Every metric</h2><div class="card">{tables.metrics(run.scores.tasks)}</div>')
        if run.done and run.done.rows:
            parts.append(f'<h2>Data</h2><div class="card">{tables.rows(run.done)}</div>')
        if run.recipe is not None:
            text = f"<summary>recipe.toml, as resolved</summary><pre>{escape(run.recipe)}</pre>"
            parts.append(f'<h2>Recipe</h2><div class="card"><details>{text}</details></div>')
        return "".join(parts)

    def place(self, chart: str, *given: Any) -> str:
        """Where the chart of that name is drawn; nothing if there is nothing to draw."""
        drawing = next((getattr(each, chart) for each in self.charts if hasattr(each, chart)), None)
        spec = drawing(*given) if drawing is not None else None
        if spec is None:
            return ""
        self.specs.append(spec)
        label = escape(spec["description"])
        return f'<div class="chart" data-chart="{len(self.specs) - 1}" role="img" aria-label="{label}"></div>'

    def data(self) -> str:
        """The charts' specifications, in a form that no text inside can end early."""
        if not self.specs:
            return ""
        values = {"config": CHART_CONFIG, "charts": self.specs}
        text = json.dumps(values, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        for sign in "<>&":
            text = text.replace(sign, f"\\u{ord(sign):04x}")
        return f'<script type="application/json" id="charts">{text}</script>'

    def scripts(self) -> list[str]:
        """What draws the charts; nothing where there are none."""
        if not self.charts or not self.specs:
            return []
        return [self.charts[0].script().replace("</script", "<\\/script"), DRAW]


def _key(marks: list[tuple[str, str]], shape: str = "line") -> str:
    """What the colours of a chart stand for; in HTML, because a legend inside a chart cannot wrap."""
    spans = "".join(f'<span><i class="{shape} {name}"></i>{escape(says)}</span>' for name, says in marks)
    return f'<p class="key">{spans}</p>'


def policy(scripts: list[str]) -> str:
    """A content security policy: these scripts and no others, and nothing from outside."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'"
