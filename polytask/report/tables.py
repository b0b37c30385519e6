"""The tables of a report."""

from collections.abc import Mapping, Sequence
from html import escape

from polytask.evaluate.metrics import LESS_IS_BETTER
from polytask.report.facts import Done, Earlier, Phase, Scores, TaskScore, Transfer
from polytask.report.read import Run
from polytask.report.words import ALONE, baseline_name, decimal, duration, gain, gained, whole

MAX_OWN = 8  # tasks with a line of their own


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], num_texts: int = 1, kind: str = "") -> str:
    """A table whose first `num_texts` columns are text and the others numbers; cells are escaped here."""

    def cell(tag: str, column: int, text: str) -> str:
        name = "n" if column >= num_texts else ""
        if heads[column] in ("Gain", "Over alone") and text[:1] in "+\u2212":
            name += " good" if text.startswith("+") else " bad"
        return f'<{tag} class="{name}">{escape(text)}</{tag}>'.replace(' class=""', "")

    head = "".join(cell("th", column, text) for column, text in enumerate(heads))
    body = "".join(
        f"<tr>{''.join(cell('td', column, text) for column, text in enumerate(row))}</tr>" for row in rows
    )
    look = f' class="{kind}"' if kind else ""
    return (
        f'<div class="scroll"><table{look}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def scores(final: Scores) -> str:
    """Each task's score beside its baselines."""
    tasks, kinds = final.tasks, final.baselines
    beside = [*map(baseline_name, kinds), "Gain"] if kinds else []
    alone = final.single.tasks if final.single else {}
    apart = [ALONE, "Over alone"] if alone else []
    heads = ["Task", "Metric", "Score", *beside, *apart, "Dev rows"]
    rows = []
    for name, task in tasks.items():
        against = [decimal(task.baselines.get(key)) for key in kinds]
        against += [decimal(gain(task), sign=True)] if kinds else []
        if alone:
            own = alone.get(name)
            better = gained(task.metric, task.score, own.score) if own else None
            against += [decimal(own.score if own else None), decimal(better, sign=True)]
        rows.append([name, task.metric, decimal(task.score), *against, whole(task.rows)])
    less = any(task.metric in LESS_IS_BETTER for task in tasks.values())
    note = "Gain is over the better baseline." if kinds else ""
    if alone:
        note += " Trained alone: by the same recipe, with as many draws of the task, in a model of its own."
    note += (
        " Less mse is better; a positive gain is better for every metric." if less and beside + apart else ""
    )
    return table(heads, rows, num_texts=2) + (f'<p class="says">{note}</p>' if note else "")


def transfer(found: Transfer, tasks: Sequence[str]) -> str:
    """The score matrix, a row a stage, and below it what the stages did to each task."""
    rows = [
        [
            f"after {', '.join(stage.tasks)}" if stage.tasks else "before training",
            *(decimal(stage.scores.get(task)) for task in tasks),
            "",
        ]
        for stage in found.stages
    ]
    for name, values in (
        ("forgetting", found.forgetting),
        ("backward transfer", found.backward),
        ("forward transfer", found.forward),
    ):
        cells = [decimal(values.get(task), sign=True) for task in tasks]
        rows.append([name, *cells, decimal(found.mean.get(name.split()[0]), sign=True)])
    note = (
        "Dev scores after each stage. Forgetting: the best earlier score less the last one. Backward "
        "transfer: the last score less the one right after the task was trained. Forward transfer: the score "
        "right before the task was trained less the untrained model's."
    )
    return table(["Stage", *tasks, "Mean"], rows) + f'<p class="says">{note}</p>'


def earlier(tasks: Mapping[str, Earlier]) -> str:
    """What adding a task did to the answers of those before it."""
    rows = [
        [
            name,
            f"{whole(each.rows)} {each.of}",
            f"{whole(each.changed_rows)} changed" if each.changed_rows else "bit for bit as before",
            decimal(each.largest_change, 4),
        ]
        for name, each in tasks.items()
    ]
    return table(["Earlier task", "Asked", "Answers", "Largest change"], rows, num_texts=3)


def metrics(tasks: dict[str, TaskScore]) -> str:
    """Every metric of every task."""
    names = [*dict.fromkeys(name for task in tasks.values() for name in task.metrics)]
    rows = [
        [name, *(decimal(task.metrics.get(metric), 4) for metric in names)] for name, task in tasks.items()
    ]
    return table(["Task", *names], rows)


def phases(planned: Sequence[Phase]) -> str:
    """What each phase trains; nothing if no phase began."""
    heads = ["Phase", "Trains", "Tasks", "Epochs", "Updates"]
    rows = [
        [str(each.phase), each.train, ", ".join(each.tasks), whole(each.epochs), whole(each.updates)]
        for each in planned
    ]
    return table(heads, rows, num_texts=3) if rows else ""


def rows(done: Done) -> str:
    """How many rows each task has, and how many were trained on, repetitions counted."""
    heads = ["Task", "Train rows", "Dev rows", "Rows trained on", "Passes"]
    lines = []
    for name, has in done.rows.items():
        drawn = done.drawn[name].rows if name in done.drawn else None
        passes = decimal(drawn / has.train, 1) if drawn is not None and has.train else decimal(None)
        lines.append([name, whole(has.train), whole(has.dev), whole(drawn), passes])
    return table(heads, lines)


def cost(run: Run) -> str:
    """Parameters, time and tokens; nothing before the run has ended."""
    done = run.done
    if done is None:
        return ""
    lines = []
    if done.parameters is not None:
        lines.append(["Shared parameters", whole(done.parameters)])
    own = list(done.own_parameters.items())
    lines += [[f"Parameters of {task} alone", whole(count)] for task, count in own[:MAX_OWN]]
    if len(own) > MAX_OWN:
        left = sum(count for _, count in own[MAX_OWN:])
        lines.append([f"Parameters of {len(own) - MAX_OWN} other tasks", whole(left)])
    if done.model_parameters is not None:
        lines.append(["Parameters in all", whole(done.model_parameters)])
    lines.append(["Training time, without evaluation", duration(done.seconds)])
    lines.append(["Tokens trained on, without padding", whole(done.tokens)])
    lines.append(["Tokens a second", whole(round(done.tokens_per_second))])
    if done.precision is not None:
        lines.append(["Precision", done.precision])
    return table(["Of the model and its training", ""], lines, kind="facts")
