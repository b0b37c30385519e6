"""How a task's answers look: how far its confidence can be believed, which labels it gives, which values."""

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np

from polytask.evaluate.metrics import Array
from polytask.report.answers import Answered
from polytask.report.charts import BASELINE, CARD, INK, MARK, MODEL, Spec, inline_chart, to_spec
from polytask.report.diagnosis import Bin

MAX_LABELS = 24  # of a chart; the commonest
MAX_POINTS = 4_000  # of all scatter charts of a page together
NUM_VALUE_BINS = 20
TRAIN, TRUE, GIVEN = "On train", "True on dev", "Answered"
MARKS = {TRUE: BASELINE, TRAIN: "var(--floor)"}
SHARE = alt.Axis(format="%", tickCount=5)


def reliability_chart(after: Sequence[Bin], before: Sequence[Bin]) -> Spec | None:
    """The share of right answers at each confidence; what is calibrated lies on the diagonal."""
    if not after:
        return None
    diagonal = inline_chart([{"confidence": 0.0, "right": 0.0}, {"confidence": 1.0, "right": 1.0}])
    whole = alt.Scale(domain=[0, 1])
    x = alt.X("confidence:Q", title="confidence", scale=whole, axis=SHARE)
    y = alt.Y("right:Q", title="right", scale=whole, axis=SHARE)
    layers = [diagonal.mark_line(color=MARK, strokeDash=[4, 4], strokeWidth=1.5).encode(x=x, y=y)]
    if before:
        plain = inline_chart(_bins(before, after)).encode(x=x, y=y)
        layers.append(plain.mark_line(color=BASELINE, strokeWidth=1.5, strokeDash=[5, 3]))
    base = inline_chart(_bins(after, after)).encode(
        x=x,
        y=y,
        tooltip=[
            alt.Tooltip("confidence:Q", format=".1%"),
            alt.Tooltip("right:Q", format=".1%"),
            alt.Tooltip("rows:Q", format=","),
        ],
    )
    layers.append(base.mark_line(color=MODEL, strokeWidth=2))
    dots = base.mark_circle(color=MODEL, opacity=1, stroke=CARD, strokeWidth=1)
    layers.append(dots.encode(size=alt.Size("part:Q", scale=None)))
    return to_spec(alt.layer(*layers), 200, "Share of right answers at each confidence.")


def _bins(bins: Sequence[Bin], of: Sequence[Bin]) -> list[Spec]:
    most = max(each.rows for each in of)
    return [
        {
            "confidence": round(each.confidence, 4),
            "right": round(each.right, 4),
            "rows": each.rows,
            "part": round(30 + 230 * each.rows / most),
        }
        for each in bins
    ]


def balance_chart(found: Answered, train: Mapping[str, int]) -> Spec | None:
    """The share of each label in the answers as a bar, on dev and train as marks; of many the commonest."""
    if not found.labels:
        return None
    series = {GIVEN: _shares(found, found.answers), TRUE: _shares(found, found.targets)}
    total = sum(train.values())
    if total:  # of a multilabel task the share of label events, as on dev
        series[TRAIN] = np.array([train.get(label, 0) / total for label in found.labels])
    order = np.sort(np.argsort(-series[TRUE], kind="stable")[:MAX_LABELS])
    rows = [
        {"label": found.labels[place], "of": of, "share": round(float(shares[place]), 5)}
        for place in order
        for of, shares in series.items()
    ]
    names = [found.labels[place] for place in order]
    base = inline_chart(rows).encode(
        y=alt.Y("label:N", sort=names, title=None, axis=alt.Axis(labelColor=INK, labelLimit=130)),
        x=alt.X("share:Q", title=None, axis=SHARE),
        tooltip=["label:N", "of:N", alt.Tooltip("share:Q", format=".1%")],
    )
    bars = base.transform_filter(f"datum.of == '{GIVEN}'").mark_bar(height=10, cornerRadiusEnd=2, color=MODEL)
    ticks = [
        base.transform_filter(f"datum.of == '{of}'").mark_tick(
            thickness=4, height=17, color=colour, stroke=CARD, opacity=1
        )
        for of, colour in reversed(MARKS.items())
        if of in series
    ]
    return to_spec(alt.layer(bars, *ticks), max(60, 25 * len(names)), "Share of each label.")


def _shares(found: Answered, values: Array) -> Array:
    flags = values.ndim == 2
    counts = values.sum(axis=0) if flags else np.bincount(values, minlength=len(found.labels))
    shares: Array = counts / max(1, counts.sum())
    return shares


def value_scatter(found: Answered, num_charts: int) -> Spec | None:
    """Each row's answer over its true value; a right answer lies on the diagonal."""
    if found.kind != "regression":
        return None
    step = -(-len(found.ids) // max(100, MAX_POINTS // num_charts))
    rows = [
        {"true": float(f"{true:.4g}"), "answer": float(f"{answer:.4g}")}
        for true, answer in zip(found.targets[::step], found.answers[::step], strict=True)
    ]
    values = _all(found)
    low, high = float(values.min()), float(values.max())
    scale = alt.Scale(domain=[low, high], nice=True, zero=False)
    x = alt.X("true:Q", title="true", scale=scale, axis=alt.Axis(tickCount=6))
    y = alt.Y("answer:Q", title="answered", scale=scale, axis=alt.Axis(tickCount=6))
    ends = inline_chart([{"true": low, "answer": low}, {"true": high, "answer": high}])
    diagonal = ends.mark_line(color=MARK, strokeDash=[4, 4], strokeWidth=1.5).encode(x=x, y=y)
    points = inline_chart(rows).mark_circle(color=MODEL, opacity=0.35, size=18)
    tooltip = [alt.Tooltip("true:Q"), alt.Tooltip("answer:Q")]
    return to_spec(
        alt.layer(diagonal, points.encode(x=x, y=y, tooltip=tooltip)), 240, "Answers over true values."
    )


def value_balance(found: Answered) -> Spec | None:
    """How often values of each size are true, and how often they are answered."""
    values = _all(found)
    if found.kind != "regression" or values.min() == values.max():
        return None
    edges = np.linspace(values.min(), values.max(), NUM_VALUE_BINS + 1)
    rows = [
        {
            "low": float(f"{edges[place]:.4g}"),
            "high": float(f"{edges[place + 1]:.4g}"),
            "of": of,
            "share": round(share, 5),
        }
        for of, given in ((TRUE, found.targets), (GIVEN, found.answers))
        for place, share in enumerate((np.histogram(given, edges)[0] / len(given)).tolist())
    ]
    base = inline_chart(rows).encode(
        x=alt.X("low:Q", title="value", bin="binned", axis=alt.Axis(tickCount=6)),
        x2="high:Q",
        y=alt.Y("share:Q", title=None, stack=None, axis=alt.Axis(format="%", tickCount=4)),
        tooltip=["of:N", "low:Q", "high:Q", alt.Tooltip("share:Q", format=".1%")],
    )
    given = base.transform_filter(f"datum.of == '{GIVEN}'").mark_bar(color=MODEL, opacity=0.75)
    some = base.transform_filter(f"datum.of == '{TRUE}' && datum.share > 0")
    true = some.mark_rule(color=BASELINE, strokeWidth=3).encode(x="low:Q", x2="high:Q")  # level
    return to_spec(alt.layer(given, true), 240, "How often each value is true.")


def _all(found: Answered) -> Array:
    return np.concatenate([found.targets.ravel(), found.answers.ravel()]).astype(np.float64)
