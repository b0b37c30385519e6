"""The report of a run: what it says, in which order, as one HTML file that fetches nothing."""

from html import escape
from pathlib import Path

from polytask.evaluate.metrics import LESS_IS_BETTER
from polytask.files import write_bytes
from polytask.report import tables
from polytask.report.answer_section import answer_sections
from polytask.report.document import Document, key
from polytask.report.findings import findings
from polytask.report.read import Run, read_run
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


def write_report(run: Path) -> Path:
    """Write `report.html` into a run folder, from what the folder holds so far, and return its path."""
    page = Page(read_run(run)).html()
    path = run / "report.html"
    write_bytes(path, page.encode("utf-8", errors="replace"))  # JSON can hold half of a surrogate pair
    return path


class Page:
    """The page of one run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.document = Document(run.name)

    def html(self) -> str:
        """The whole page."""
        found = self.scores(), self.stages(), self.course(), self.conflict(), self.each_task()
        answers = answer_sections(self.run, self.document)
        sections = "".join((*found, answers, self.cost(), self.details()))
        first = self.missing() + self.tiles() + self.findings()
        return self.document.html(self.subtitle(), first, sections, "All scores are on dev rows.")

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

    def findings(self) -> str:
        """What it all comes to."""
        items = "".join(f"<li>{escape(line)}</li>" for line in findings(self.run))
        return f'<ul class="findings">{items}</ul>' if items else ""

    def kept(self) -> str:
        """Which moment's weights the scores are of."""
        best = self.run.scores.best if self.run.scores else None
        if self.run.scores and not self.run.scores.tasks:
            return "no task has dev rows"
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
        if not final.tasks:
            return ""
        marks = [(baseline_colour(key, n), baseline_name(key)) for n, key in enumerate(final.baselines)]
        marks += [(ALONE_COLOUR, ALONE)] if final.single else []
        heading = self.document.heading("Scores")
        chart = self.document.place("score_bars", final)
        bars = (
            f'<div class="card">{key([("model", "This model"), *marks], "box")}{chart}</div>' if chart else ""
        )
        return f'{heading}{bars}<div class="card">{tables.scores(final)}</div>'

    def stages(self) -> str:
        """What each phase did to the tasks of the others."""
        final = self.run.scores
        if final is None or final.transfer is None:
            return ""
        errors = [name for name, task in final.tasks.items() if task.metric in LESS_IS_BETTER]
        drawn = self.document.place("score_matrix", final.transfer, errors)
        top = (
            '<h3>Scores after each stage</h3><p class="says">The fuller the colour, the nearer its '
            f"column's best. An edge marks the tasks that the stage trained.</p>{drawn}"
        )
        picture = f'<div class="card">{top}</div>' if drawn else ""
        table = tables.transfer(final.transfer, [*final.tasks])
        earlier = f'<div class="card">{tables.earlier(final.earlier_tasks)}</div>' * bool(final.earlier_tasks)
        return f'{self.document.heading("Stages")}{picture}<div class="card">{table}</div>{earlier}'

    def course(self) -> str:
        """How training went, over all tasks."""
        mean = self.card("Mean score on dev", "The ring marks the weights kept.", "mean_curve")
        colours = [(f"task{number}", name) for number, name in enumerate(self.run.scheduled)]
        colour_key = key(colours, "box") if len(colours) <= NUM_COLOURS else ""
        schedule = self.card("Schedule", "Each task's share of the draws.", "schedule_chart", colour_key)
        rate = self.card("Learning rate", "At each update.", "rate_curve")
        planned = tables.phases(self.run.phases)
        table = f'<div class="card">{planned}</div>' if planned else ""
        cards = f'{mean}<div class="grid">{schedule}{rate}</div>{table}'
        some = mean or schedule or rate or table
        return f"{self.document.heading('Training')}{cards}" if some else ""

    def conflict(self) -> str:
        """How far the tasks' gradients pulled apart."""
        if not self.run.conflicts:
            return ""
        tasks = self.card(
            "Between tasks", "Mean cosine of the gradients; below zero they conflict.", "conflict_matrix"
        )
        layers = self.card("By layer", "Mean cosine of each pair, from the bottom up.", "conflict_layers")
        marks = key([("model", "Pairs of tasks"), ("baseline", "Tensors")])
        curve = self.card("In conflict", "Share at each look.", "conflict_curve", marks)
        norms = self.card(
            "Length of the update", "After the combiner, in relation to the plain sum.", "norm_curve"
        )
        heading = self.document.heading("Conflict")
        more = f'<div class="stack after">{layers}{norms}</div>'
        return f'{heading}<div class="grid">{tasks}{curve}</div>{more}'

    def card(self, title: str, says: str, chart: str, key: str = "") -> str:
        """A chart of the whole run under its title; nothing if there is nothing to draw."""
        drawn = self.document.place(chart, self.run)
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
        marks_key = key(marks)
        heading = self.document.heading("Task by task")
        return f'{heading}{marks_key}<div class="grid small">{cards}</div>{more}'

    def task_card(self, task: str, num_cards: int) -> str:
        """One task's two curves under its name and scores."""
        dev, loss = (
            self.document.place("task_curve", self.run, task),
            self.document.place("loss_curve", self.run, task, num_cards),
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

    def cost(self) -> str:
        """What the model weighs, and how fast it was trained."""
        facts = tables.cost(self.run)
        drawn = self.card("Speed", "Real tokens a second, smoothed.", "speed_curve")
        if not facts and not drawn:
            return ""
        table = f'<div class="card">{facts}</div>' if facts else ""
        return f'{self.document.heading("Parameters and speed")}<div class="grid">{table}{drawn}</div>'

    def details(self) -> str:
        """Every metric, the rows, and the recipe."""
        run, parts, heading = self.run, [], self.document.heading
        if run.scores and run.scores.tasks:
            metrics = tables.metrics(run.scores.tasks)
            parts.append(f'{heading("Every metric")}<div class="card">{metrics}</div>')
        if run.done and run.done.rows:
            parts.append(f'{heading("Data")}<div class="card">{tables.rows(run.done)}</div>')
        if run.recipe is not None:
            text = f"<summary>recipe.toml, as resolved</summary><pre>{escape(run.recipe)}</pre>"
            parts.append(f'{heading("Recipe")}<div class="card"><details>{text}</details></div>')
        return "".join(parts)
