"""How recipes compare: scores with error bars, over time, and against parameters."""

from collections.abc import Sequence

import altair as alt

from polytask.report.charts import INK, MARK, MODEL, PALETTE, Spec, inline_chart, to_spec

SCORE = alt.Tooltip("score:Q", format=".4f")
ERROR = alt.Tooltip("error:Q", format=".4f", title="standard error")


def comparison_bars(rows: Sequence[Spec]) -> Spec | None:
    """A bar a recipe with its standard error; rows have recipe, score, error (or None) and baseline."""
    if not rows:
        return None
    ends = [
        {**row, "low": row["score"] - (row["error"] or 0), "high": row["score"] + (row["error"] or 0)}
        for row in rows
    ]
    lowest, highest = min(row["low"] for row in ends), max(row["high"] for row in ends)
    room = max(highest - lowest, 0.01) * 0.6
    start = lowest - room  # small differences are the point, so the axis does not begin at 0
    names = [row["recipe"] for row in ends]
    base = inline_chart([{**row, "start": start} for row in ends]).encode(
        y=alt.Y("recipe:N", sort=names, title=None, axis=alt.Axis(labelColor=INK, labelFontSize=13)),
        tooltip=["recipe:N", SCORE, ERROR],
    )
    axis = alt.X(
        "start:Q", title=None, scale=alt.Scale(domain=[start, highest + room], nice=False, zero=False)
    )
    colour = alt.condition("datum.baseline", alt.value(MARK), alt.value(MODEL))
    bars = base.mark_bar(height=16, cornerRadiusEnd=3).encode(x=axis, x2="score:Q", color=colour)
    spread = base.transform_filter("datum.high > datum.low").mark_rule(strokeWidth=2, color=INK)
    written = base.mark_text(align="left", dx=8, fontSize=12, color=INK)
    return to_spec(
        alt.layer(
            bars,
            spread.encode(x="low:Q", x2="high:Q"),
            written.encode(x="high:Q", text=alt.Text("score:Q", format=".4f")),
        ),
        height=28 * len(names) + 10,
        says="Mean dev score of each recipe with its standard error.",
    )


def comparison_curves(rows: Sequence[Spec], recipes: Sequence[str]) -> Spec | None:
    """The mean dev score over training time, a line a run; rows have recipe, seed, seconds and score."""
    if not rows:
        return None
    base = inline_chart(list(rows)).encode(
        x=alt.X("minutes:Q", title="minutes of training"),
        y=alt.Y("score:Q", title=None, scale=alt.Scale(zero=False)),
        detail="seed:N",
        tooltip=["recipe:N", "seed:N", alt.Tooltip("minutes:Q", format=".1f"), SCORE],
    )
    if len(recipes) <= len(PALETTE):
        scale = alt.Scale(domain=list(recipes), range=PALETTE[: len(recipes)])
        base = base.encode(color=alt.Color("recipe:N", scale=scale, legend=None))
    else:
        base = base.encode(detail=["recipe:N", "seed:N"], color=alt.value(MODEL))
    lines = base.mark_line(strokeWidth=2, opacity=0.8)
    return to_spec(
        alt.layer(lines, base.mark_circle(size=40, opacity=1)),
        height=280,
        says="Mean dev score over training time.",
    )


def comparison_sizes(rows: Sequence[Spec]) -> Spec | None:
    """Parameters against the mean score; rows have recipe, parameters, score and error (or None)."""
    if not rows:
        return None
    ends = [
        {**row, "low": row["score"] - (row["error"] or 0), "high": row["score"] + (row["error"] or 0)}
        for row in rows
    ]
    base = inline_chart(ends).encode(
        x=alt.X(
            "parameters:Q",
            title="parameters of the model",
            scale=alt.Scale(zero=False, padding=40),
            axis=alt.Axis(format="~s", tickCount=5),
        ),
        tooltip=["recipe:N", alt.Tooltip("parameters:Q", format=","), SCORE, ERROR],
    )
    vertical = alt.Y("score:Q", title=None, scale=alt.Scale(zero=False, padding=12))
    spread = base.transform_filter("datum.high > datum.low").mark_rule(strokeWidth=1.5, color=MARK)
    dots = base.mark_circle(size=90, color=MODEL, opacity=1).encode(y=vertical)
    names = base.mark_text(align="left", dx=9, fontSize=12, color=INK).encode(y=vertical, text="recipe:N")
    low = alt.Y("low:Q", title=None, scale=alt.Scale(zero=False, padding=12))
    return to_spec(
        alt.layer(spread.encode(y=low, y2="high:Q"), dots, names),
        height=280,
        says="Parameters of each recipe's model against its mean score.",
    )
