"""How a run looks: Vega-Lite specifications whose colours are CSS variables of the page."""

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from math import isfinite
from typing import Any, TypeVar

import altair as alt
import vl_convert

from polytask.evaluate.metrics import LESS_IS_BETTER
from polytask.report.facts import Evaluation, Scores, Update
from polytask.report.read import Run
from polytask.report.words import (
    ALONE,
    ALONE_COLOUR,
    NUM_COLOURS,
    baseline_colour,
    baseline_name,
    best_baseline,
)

Spec = dict[str, Any]
Item = TypeVar("Item")

INK, CARD, MODEL, BASELINE, MARK = (f"var(--{name})" for name in ("ink", "card", "model", "baseline", "mark"))
PALETTE = [f"var(--task{number})" for number in range(NUM_COLOURS)]
ZERO = "datum.value ? datum.label : '0'"  # without unit or exponent
MAX_POINTS = 6_000  # of all loss curves of a page together
MOMENT = (
    alt.Tooltip("phase:Q"),
    alt.Tooltip("epoch:Q"),
    alt.Tooltip("update:Q", format=","),
)  # of training, in a tooltip


@cache  # bundling takes a second
def script() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that fetches nothing, in the version of the charts."""
    version = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    known = version in vl_convert.get_vegalite_versions()
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", version if known else None))


def score_bars(scores: Scores) -> Spec | None:
    """A bar a task with its baselines as ticks; tasks scored by an error have no place on this axis."""
    alone = scores.single.tasks if scores.single else {}
    rows: list[Spec] = []
    for name, task in scores.tasks.items():
        if task.metric in LESS_IS_BETTER:
            continue
        marks = {baseline_name(key): value for key, value in task.baselines.items()}
        marks |= {ALONE: alone[name].score} if name in alone else {}
        end = max(0.0, task.score, *marks.values())  # the number is written right of all marks
        rows.append({"task": name, "of": "This model", "score": task.score, "model": True, "end": end})
        rows += [{"task": name, "of": of, "score": score, "model": False} for of, score in marks.items()]
    if not rows:
        return None
    found = ["This model", *(baseline_name(key) for key in scores.baselines), ALONE]
    colours = [f"var(--{baseline_colour(key, number)})" for number, key in enumerate(scores.baselines)]
    colours.append(f"var(--{ALONE_COLOUR})")
    lowest = min(0.0, *(row["score"] for row in rows))
    names = [*dict.fromkeys(row["task"] for row in rows)]
    base = inline_chart(rows).encode(
        y=alt.Y("task:N", sort=names, title=None, axis=alt.Axis(labelColor=INK, labelFontSize=13)),
        x=alt.X(
            "score:Q",
            title=None,
            scale=alt.Scale(domain=[lowest, 1], nice=True),
            axis=alt.Axis(grid=True, tickCount=5),
        ),
        color=alt.Color("of:N", scale=alt.Scale(domain=found, range=[MODEL, *colours]), legend=None),
        tooltip=["task:N", "of:N", alt.Tooltip("score:Q", format=".3f")],
    )
    bars = base.transform_filter("datum.model").mark_bar(height=16, cornerRadiusEnd=3)
    ticks = base.transform_filter("!datum.model").mark_tick(thickness=5, height=26, stroke=CARD, opacity=1)
    written = base.transform_filter("datum.model").mark_text(align="left", dx=9, fontSize=13, fontWeight=600)
    values = written.encode(x="end:Q", text=alt.Text("score:Q", format=".3f"), color=alt.value(INK))
    spec = to_spec(alt.layer(bars, ticks, values), 36 * len(names), "Scores on dev against the baselines.")
    return spec | {"padding": {"left": 0, "right": 48, "top": 4, "bottom": 2}}


def mean_curve(run: Run) -> Spec | None:
    """The mean dev score after each evaluation, the best one so far marked."""
    if not run.evaluations:
        return None
    kept = max((number for number, each in enumerate(run.evaluations) if each.best), default=-1)
    rows = [
        {**_moment(each), "mean": each.mean, "kept": number == kept}
        for number, each in enumerate(run.evaluations)
    ]
    base = inline_chart(rows).encode(
        x=updates_axis(run),
        y=alt.Y("mean:Q", title=None, scale=_span([row["mean"] for row in rows]), axis=alt.Axis(tickCount=4)),
        tooltip=[*MOMENT, alt.Tooltip("mean:Q", format=".4f")],
    )
    dots = base.mark_circle(size=60, color=MODEL, opacity=1)
    best = base.transform_filter("datum.kept").mark_point(size=260, color=MODEL, strokeWidth=2)
    layers = [*_phase_starts(run), base.mark_line(color=MODEL, strokeWidth=2.5), dots, best]
    return to_spec(alt.layer(*layers), says="Mean score on dev over training.")


def rate_curve(run: Run) -> Spec | None:
    """The learning rate of each update."""
    if not run.updates:
        return None
    rows = [{**_moment(each), "lr": each.lr} for each in thinned(run.updates, 400)]
    rates = inline_chart(rows).encode(
        x=updates_axis(run),
        y=alt.Y(
            "lr:Q",
            title=None,
            axis=alt.Axis(format="~e", tickCount=4, labelExpr=ZERO),
        ),
        tooltip=[*MOMENT, alt.Tooltip("lr:Q", format=".2e")],
    )
    return to_spec(
        alt.layer(*_phase_starts(run), rates.mark_line(color=MODEL, strokeWidth=2)), says="Learning rate."
    )


def speed_curve(run: Run) -> Spec | None:
    """Tokens a second between one logged update and the next, smoothed."""
    pairs = [
        (after, (after.tokens - before.tokens) / (after.seconds - before.seconds))
        for before, after in pairwise(run.updates)
        if after.seconds > before.seconds and after.tokens >= before.tokens
    ]
    if len(pairs) < 2:
        return None
    smooth = _smoothed([speed for _, speed in pairs])
    rows = [
        {**_moment(each), "speed": round(value)}
        for (each, _), value in thinned([*zip(pairs, smooth, strict=True)], 200)
    ]
    axis = alt.Axis(format="~s", tickCount=4, labelExpr=ZERO)
    base = inline_chart(rows).encode(
        x=updates_axis(run),
        y=alt.Y(
            "speed:Q",
            title=None,
            scale=alt.Scale(zero=True),
            axis=axis,
        ),
        tooltip=[*MOMENT, alt.Tooltip("speed:Q", format=",")],
    )
    return to_spec(base.mark_line(color=MODEL, strokeWidth=2), says="Tokens a second over training.")


def schedule_chart(run: Run) -> Spec | None:
    """The share of draws of each task, epoch by epoch: stacked bars, or a grid where colours run out."""
    many_phases = len(run.phases) > 1
    rows: list[Spec] = [
        {
            "epoch": f"{phase.phase}·{each.epoch}" if many_phases else str(each.epoch),
            "task": task,
            "share": share,
        }
        for phase in run.phases
        for each in phase.schedule
        for task, share in each.share.items()
    ]
    if not rows:
        return None
    tasks, epochs = run.scheduled, [*dict.fromkeys(row["epoch"] for row in rows)]
    title = "phase · epoch" if many_phases else "epoch"
    base = inline_chart(rows).encode(
        x=alt.X("epoch:O", sort=epochs, title=title, axis=alt.Axis(labelAngle=0)),
        tooltip=["task:N", alt.Tooltip("epoch:O", title=title), alt.Tooltip("share:Q", format=".1%")],
    )
    says = "Share of the draws of each task in each epoch."
    if len(tasks) > len(PALETTE):
        cells = base.mark_rect(color=MODEL, stroke="var(--card)", strokeWidth=1).encode(
            y=alt.Y("task:N", sort=tasks, title=None),
            opacity=alt.Opacity("share:Q", scale=alt.Scale(domainMin=0, range=[0.05, 1]), legend=None),
        )
        return to_spec(cells, height=22 * len(tasks), says=says)
    order = {task: number for number, task in enumerate(tasks)}
    for row in rows:
        row["order"] = order[row["task"]]
    bars = base.mark_bar(stroke="var(--card)", strokeWidth=1).encode(
        y=alt.Y("share:Q", stack="normalize", title=None, axis=alt.Axis(format="%", tickCount=4)),
        color=alt.Color("task:N", scale=alt.Scale(domain=tasks, range=PALETTE[: len(tasks)]), legend=None),
        order="order:Q",
    )
    return to_spec(bars, says=says)


def task_curve(run: Run, task: str) -> Spec | None:
    """One task's dev score over training, its best baseline as a dashed line."""
    rows = [{**_moment(each), "score": each.scores[task]} for each in run.evaluations if task in each.scores]
    if not rows:
        return None
    strongest = best_baseline(run.scores.tasks[task]) if run.scores and task in run.scores.tasks else None
    seen = [row["score"] for row in rows] + ([strongest[1]] if strongest else [])
    base = inline_chart(rows).encode(
        x=updates_axis(run, small=True),
        y=alt.Y("score:Q", title=None, scale=_span(seen), axis=_few_ticks()),
        tooltip=[*MOMENT, alt.Tooltip("score:Q", format=".4f")],
    )
    layers: list[alt.Chart] = []
    if strongest is not None:
        rule = inline_chart([{"score": strongest[1], "of": baseline_name(strongest[0])}]).mark_rule(
            color=BASELINE, strokeWidth=2, strokeDash=[5, 4]
        )
        layers.append(
            rule.encode(
                y=alt.Y("score:Q", scale=_span(seen)), tooltip=["of:N", alt.Tooltip("score:Q", format=".4f")]
            )
        )
    layers += [base.mark_line(color=MODEL, strokeWidth=2), base.mark_circle(size=45, color=MODEL, opacity=1)]
    return to_spec(alt.layer(*layers), height=110, says="Score on dev over training.")


def loss_curve(run: Run, task: str, num_charts: int) -> Spec | None:
    """One task's training loss, as it came and smoothed."""
    seen = [each for each in run.updates if isfinite(each.losses.get(task, float("nan")))]
    if not seen:
        return None
    smooth = _smoothed([each.losses[task] for each in seen])
    rows = [
        {**_moment(each), "loss": each.losses[task], "smooth": value}
        for each, value in thinned([*zip(seen, smooth, strict=True)], max(60, MAX_POINTS // num_charts // 4))
    ]
    base = inline_chart(rows).encode(
        x=updates_axis(run, small=True),
        tooltip=[*MOMENT, alt.Tooltip("loss:Q", format=".4f"), alt.Tooltip("smooth:Q", format=".4f")],
    )
    axis = alt.Y("loss:Q", title=None, scale=_span([row["loss"] for row in rows]), axis=_few_ticks())
    raw = base.mark_line(color=MODEL, strokeWidth=1, opacity=0.3).encode(y=axis)
    strong = base.mark_line(color=MODEL, strokeWidth=2, point=len(rows) == 1).encode(y="smooth:Q")
    return to_spec(alt.layer(raw, strong), height=110, says="Training loss.")


def inline_chart(rows: list[Spec]) -> alt.Chart:
    """A chart with its data inside."""
    return alt.Chart(alt.InlineData(values=rows))


def to_spec(chart: alt.Chart | alt.LayerChart | alt.FacetChart, height: int = 220, says: str = "") -> Spec:
    """The specification as plain values, as wide as its place on the page."""
    spec: Spec = chart.properties(width="container", height=height, description=says).to_dict()
    for key in ("$schema", "config"):  # the page gives both once, and names no address
        spec.pop(key, None)
    return spec


def updates_axis(run: Run, small: bool = False) -> alt.X:
    """The updates of the whole run."""
    looks = [each.update for each in run.conflicts]
    last = max([each.update for each in run.updates] + [each.update for each in run.evaluations] + looks)
    axis = alt.Axis(tickCount=4 if small else 6, format="~s" if last >= 10_000 else ",d")
    return alt.X(
        "update:Q",
        title=None if small else "update",
        scale=alt.Scale(domain=[0, last], nice=False),
        axis=axis,
    )


def _span(values: Sequence[float]) -> alt.Scale:
    """From the least to the greatest value; some room about a single one, which has no scale of its own."""
    low, high = min(values), max(values)
    room = 0.0 if high > low else max(abs(high) * 0.05, 0.01)
    return alt.Scale(domain=[low - room, high + room], nice=True, zero=False)


def _few_ticks() -> alt.Axis:
    return alt.Axis(tickCount=4, grid=True, minExtent=38)  # so that charts above each other share a left edge


def _phase_starts(run: Run) -> list[alt.Chart]:
    """A dotted line where each phase but the first starts."""
    starts = [after.update - 1 for before, after in pairwise(run.updates) if after.phase != before.phase]
    lines = inline_chart([{"update": start} for start in starts])
    return [lines.mark_rule(color=MARK, strokeDash=[2, 3]).encode(x="update:Q")] if starts else []


def _moment(each: Update | Evaluation) -> Spec:
    return {"phase": each.phase, "epoch": each.epoch, "update": each.update}


def _smoothed(values: Sequence[float]) -> list[float]:
    """An exponential moving average over about a twentieth of the curve, corrected at its start."""
    keep = 1 - 1 / max(1.0, len(values) / 20)
    total = weight = 0.0
    smooth = []
    for value in values:
        total, weight = keep * total + value, keep * weight + 1
        smooth.append(total / weight)
    return smooth


def thinned(items: Sequence[Item], most: int) -> list[Item]:
    """Every n-th item, so that at most `most` are left, and the last."""
    step = -(-len(items) // most)
    return [*items[:-1:step], *items[-1:]]
