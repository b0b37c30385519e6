"""How far the tasks' gradients pull apart: between tasks, by layer, and over training."""

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

import altair as alt

from polytask.report.charts import BASELINE, INK, MODEL, Spec, inline_chart, thinned, to_spec, updates_axis
from polytask.report.read import Run

LEAST_FULL = 0.2  # the cosine at which colour is full, unless there are greater ones
FAINTEST, FULLEST = 0.05, 0.7  # opacities that leave a number readable on top
MAX_NUMBERED = 12  # columns, before a cell has no room for its number
MAX_PAIRS = 16  # of the map over layers; those that conflict most
MAX_LOOKS = 300  # of a curve

Key = TypeVar("Key")


def conflict_matrix(run: Run) -> Spec | None:
    """The mean cosine of each pair of tasks."""
    order = _order(run)
    means = _means(
        (_in_order(order, pair), value)
        for seen in run.conflicts
        for pair, value in zip(seen.pairs, seen.cosines, strict=True)
    )
    if not means:
        return None
    tasks = [task for task in order if any(task in pair for pair in means)]
    rows: list[Spec] = [
        {"a": a, "b": b, "cosine": round(value, 4)}
        for pair, value in means.items()
        for a, b in (pair, pair[::-1])
    ]
    return _map(rows, ("a", "b"), (tasks, tasks), len(tasks) <= MAX_NUMBERED)


def conflict_layers(run: Run) -> Spec | None:
    """The mean cosine of each pair in each layer, the pairs that conflict most where they are many."""
    order = _order(run)
    means = _means(
        ((_in_order(order, pair), layer), value)
        for seen in run.conflicts
        for layer, values in seen.layers.items()
        for pair, value in zip(seen.pairs, values, strict=True)
    )
    if not means:
        return None
    layers = list(dict.fromkeys(layer for _, layer in means))
    of_pair = _means((pair, value) for (pair, _), value in means.items())
    chosen = sorted(of_pair, key=lambda pair: of_pair[pair])[:MAX_PAIRS]
    rows: list[Spec] = [
        {"layer": layer, "pair": " · ".join(pair), "cosine": round(value, 4)}
        for (pair, layer), value in means.items()
        if pair in chosen
    ]
    pairs = [" · ".join(pair) for pair in chosen]
    return _map(rows, ("layer", "pair"), (layers, pairs), False)


def _order(run: Run) -> dict[str, int]:
    """Where each task stands in the run."""
    seen = (task for each in run.conflicts for task in each.tasks)
    return {task: place for place, task in enumerate(dict.fromkeys((*run.tasks, *seen)))}


def _in_order(order: dict[str, int], pair: tuple[str, str]) -> tuple[str, str]:
    """One name for a pair, whichever of the two was drawn first."""
    first, second = pair
    return pair if order[first] < order[second] else (second, first)


def _map(
    rows: list[Spec], names: tuple[str, str], order: tuple[list[str], list[str]], numbered: bool
) -> Spec:
    """Cells by two names: blue where gradients agree, orange where they conflict, fuller the more they do."""
    across, down = names
    full = max(LEAST_FULL, *(abs(row["cosine"]) for row in rows))
    for row in rows:
        row["share"] = round(FAINTEST + (FULLEST - FAINTEST) * abs(row["cosine"]) / full, 3)
    angle = 0 if len(order[0]) <= 6 else -40
    base = inline_chart(rows).encode(
        x=alt.X(f"{across}:N", sort=order[0], title=None, axis=alt.Axis(labelAngle=angle, labelLimit=110)),
        y=alt.Y(f"{down}:N", sort=order[1], title=None, axis=alt.Axis(labelColor=INK)),
        tooltip=[f"{across}:N", f"{down}:N", alt.Tooltip("cosine:Q", format="+.3f")],
    )
    cells = base.mark_rect(cornerRadius=3, stroke="var(--card)", strokeWidth=2).encode(
        fill=alt.condition("datum.cosine < 0", alt.value(BASELINE), alt.value(MODEL)),
        fillOpacity=alt.FillOpacity("share:Q", scale=None),
    )
    numbers = base.mark_text(color=INK, fontSize=12).encode(text=alt.Text("cosine:Q", format="+.2f"))
    height = (44 if len(order[1]) <= 4 else 30) * len(order[1]) + 20
    says = "Mean cosines of the tasks' gradients; orange where they conflict."
    return to_spec(alt.layer(cells, numbers) if numbered else alt.layer(cells), height, says)


def conflict_curve(run: Run) -> Spec | None:
    """The share of pairs and of tensors in conflict at each look."""
    if not run.conflicts:
        return None
    rows = [
        {"update": seen.update, "of": of, "share": share}
        for seen in thinned(run.conflicts, MAX_LOOKS)
        for of, share in (("Pairs", seen.pairs_in_conflict), ("Tensors", seen.tensors_in_conflict))
    ]
    lines = inline_chart(rows).mark_line(strokeWidth=2, point={"size": 20})
    spec = lines.encode(
        x=updates_axis(run),
        y=alt.Y(
            "share:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=4)
        ),
        color=alt.Color(
            "of:N", scale=alt.Scale(domain=["Pairs", "Tensors"], range=[MODEL, BASELINE]), legend=None
        ),
        tooltip=["update:Q", "of:N", alt.Tooltip("share:Q", format=".0%")],
    )
    return to_spec(spec, says="Share of pairs of tasks and of tensors in conflict.")


def norm_curve(run: Run) -> Spec | None:
    """The length of the combined gradient over that of the plain sum; nothing where it is the plain sum."""
    seen = [each for each in run.conflicts if each.norm_ratio is not None]
    if all(each.norm_ratio == 1 for each in seen):
        return None
    rows = [{"update": each.update, "ratio": each.norm_ratio} for each in thinned(seen, MAX_LOOKS)]
    lines = inline_chart(rows).mark_line(color=MODEL, strokeWidth=2)
    spec = lines.encode(
        x=updates_axis(run),
        y=alt.Y("ratio:Q", title=None, axis=alt.Axis(tickCount=4)),
        tooltip=["update:Q", alt.Tooltip("ratio:Q", format=".3f")],
    )
    return to_spec(spec, 160, "Length of the combined gradient over that of the plain sum.")


def _means(found: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    sums: defaultdict[Key, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for key, value in found:
        sums[key][0] += value
        sums[key][1] += 1
    return {key: total / count for key, (total, count) in sums.items()}
