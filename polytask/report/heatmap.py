"""The score matrix as a picture: a row a stage, a column a task, the darker the nearer to the task's best."""

from collections.abc import Collection

import altair as alt

from polytask.report.charts import INK, MARK, MODEL, Spec, inline_chart, to_spec
from polytask.report.facts import Transfer

LEAST_SPAN = 0.05  # between white and full colour, so that noise is not painted as forgetting
FAINTEST, FULLEST = 0.06, 0.62  # opacities that leave a number readable on top


def score_matrix(found: Transfer, less_is_better: Collection[str]) -> Spec | None:
    """Every stage's scores; the cells of the tasks that a stage trained have an edge."""
    tasks = list(dict.fromkeys(task for stage in found.stages for task in stage.scores))
    names = [
        f"{number}  {', '.join(stage.tasks)}" if stage.tasks else f"{number}  untrained"
        for number, stage in enumerate(found.stages)
    ]
    rows: list[Spec] = []
    for task in tasks:
        sign = -1 if task in less_is_better else 1
        column = [sign * stage.scores[task] for stage in found.stages if task in stage.scores]
        best, span = max(column), max(max(column) - min(column), LEAST_SPAN)
        for name, stage in zip(names, found.stages, strict=True):
            if task in stage.scores:
                near = 1 - (best - sign * stage.scores[task]) / span
                rows.append(
                    {
                        "stage": name,
                        "task": task,
                        "score": stage.scores[task],
                        "near": FAINTEST + (FULLEST - FAINTEST) * near,
                        "trained": task in stage.tasks,
                    }
                )
    if not rows:
        return None
    base = inline_chart(rows).encode(
        x=alt.X("task:N", sort=tasks, title=None, axis=alt.Axis(orient="top", labelAngle=0, labelColor=INK)),
        y=alt.Y("stage:N", sort=names, title=None, axis=alt.Axis(labelColor=INK)),
        tooltip=["stage:N", "task:N", alt.Tooltip("score:Q", format=".4f")],
    )
    cells = base.mark_rect(fill=MODEL, cornerRadius=3).encode(
        fillOpacity=alt.FillOpacity("near:Q", scale=None),
        stroke=alt.condition("datum.trained", alt.value(INK), alt.value(MARK)),
        strokeWidth=alt.condition("datum.trained", alt.value(1.8), alt.value(0.3)),
    )
    numbers = base.mark_text(color=INK, fontSize=13).encode(text=alt.Text("score:Q", format=".3f"))
    says = "Scores of all tasks after each stage; edged: the tasks that the stage trained."
    return to_spec(alt.layer(cells, numbers), 44 * len(names) + 24, says)
