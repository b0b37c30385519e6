"""What people see while work goes on: a live line on a terminal, plain lines in a log."""

import sys
import time
from collections.abc import Sequence
from typing import Any, Literal, final

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

PLAIN_EVERY = 15.0  # seconds between progress lines in a log
UNBROKEN = 100_000  # columns of what is no terminal: one line a row
SPLITS = ("train", "dev", "test")
INPUTS = {1: "sentence", 2: "pair"}

stdout = Console(highlight=False, width=None if sys.stdout.isatty() else UNBROKEN)
stderr = Console(stderr=True, highlight=False)


@final
class TrainingProgress:
    """Listens to a run's events and shows them on standard error."""

    def __init__(self, console: Console = stderr) -> None:
        self._console = console
        self._total = 0  # updates of the phase
        self._first = 0  # updates before the phase
        self._started: tuple[int, float] | None = None  # first update event seen here: number, seconds
        self._shown_at = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(None), TextColumn("{task.fields[status]}"))
        self._bar = Progress(*columns, console=console, expand=True)
        self._task = self._bar.add_task("", total=None, status="")
        self._live = Live(self._bar, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> "TrainingProgress":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def __call__(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "stage":
                self._stage(event["message"])
            case "note" | "warning":
                self._say(f"[yellow]note[/] {escape(event['message'])}")
            case "phase":
                self._total, self._first = event["updates"], event["update"]
                self._started = None
                tasks = ", ".join(event["tasks"])
                self._say(
                    f"phase {event['phase']}: {event['train']} on {tasks}, "
                    f"{event['epochs']} epochs, {event['updates']:,} updates"
                )
            case "update":
                self._update(event)
            case "evaluate":
                scores = "  ".join(f"{task} {score:.4f}" for task, score in event["scores"].items())
                mark = "  [green]best[/]" if event["best"] else ""
                self._say(f"epoch {event['epoch']}: mean {event['mean']:.4f}  {scores}{mark}")

    def _stage(self, message: str) -> None:
        if self._console.is_terminal:
            self._bar.update(self._task, description=message, total=None, status="")
        else:
            self._say(escape(message))

    def _update(self, event: dict[str, Any]) -> None:
        done = event["update"] - self._first
        if self._started is None:
            self._started = (event["update"], event["seconds"])
        speed = event["tokens"] / max(event["seconds"], 1e-9)
        losses = " ".join(f"{task} {loss:.3f}" for task, loss in event["losses"].items())
        status = f"{done:,}/{self._total:,}  {speed:,.0f} tokens/s  {self._left(event)}  loss {losses}"
        if self._console.is_terminal:
            self._bar.update(
                self._task, description="training", total=self._total, completed=done, status=status
            )
        elif time.monotonic() - self._shown_at >= PLAIN_EVERY:
            self._shown_at = time.monotonic()
            self._say(status)

    def _say(self, line: str) -> None:
        """Print one line, which is never broken where it is logged."""
        self._console.print(line, soft_wrap=True)

    def _left(self, event: dict[str, Any]) -> str:
        """The time that this phase still takes, from its own pace."""
        assert self._started is not None
        first, seconds = self._started
        done = event["update"] - first
        if done <= 0:
            return "--:-- left"
        left = (event["seconds"] - seconds) / done * (self._first + self._total - event["update"])
        return f"{int(left) // 60:02d}:{int(left) % 60:02d} left"


def print_scores(scores: dict[str, Any], console: Console = stdout) -> None:
    """The table that ends a training or an evaluation."""
    if not scores["tasks"]:
        console.print("nothing was scored: no task has dev rows")
        return
    baselines = sorted({name for item in scores["tasks"].values() for name in item.get("baselines", {})})
    alone = scores.get("single", {"tasks": {}, "mean": None})
    rows = [
        [
            name,
            item["metric"],
            f"{item['rows']:,}",
            *(_number(item.get("baselines", {}).get(baseline)) for baseline in baselines),
            *([_number(alone["tasks"].get(name, {}).get("score"))] if alone["tasks"] else []),
            f"[bold]{_number(item['score'])}[/]",
        ]
        for name, item in scores["tasks"].items()
    ]
    names = {"majority": "majority or mean", "tfidf": "TF-IDF + linear"}
    header = ["task", "metric", "dev rows", *(names.get(name, name) for name in baselines)]
    header += ["trained alone", "score"] if alone["tasks"] else ["score"]
    if scores["mean"] is not None and len(rows) > 1:
        beside = [_number(alone["mean"])] if alone["tasks"] else []
        rows.append(["mean", "", "", *("" for _ in baselines), *beside, f"[bold]{scores['mean']:.4f}[/]"])
    print_table(header, rows, console)
    if "conflict" in scores:
        console.print(f"\n{escape(scores['conflict']['verdict'])}")
    if "transfer" in scores:
        console.print()
        print_transfer(scores["transfer"], list(scores["tasks"]), console)


def print_transfer(found: dict[str, Any], tasks: Sequence[str], console: Console = stdout) -> None:
    """The scores of all tasks after each stage, and what the stages did to each task."""
    rows = []
    for stage in found["stages"]:
        name = f"after {', '.join(stage['tasks'])}" if stage["tasks"] else "before training"
        rows.append([name, *(_number(stage["scores"].get(task)) for task in tasks), ""])
    for measure in ("forgetting", "backward", "forward"):
        cells = [_number(found[measure].get(task)) for task in tasks]
        rows.append([measure, *cells, _number(found["mean"].get(measure))])
    print_table(["dev scores", *tasks, "mean"], rows, console)


def print_changes(earlier: dict[str, dict[str, Any]], console: Console = stdout) -> None:
    """What an addition did to the answers of the tasks before it."""
    console.print()
    rows = []
    for name, item in earlier.items():
        same = item["changed_rows"] == 0
        said = "bit for bit as before" if same else f"{item['changed_rows']:,} changed"
        rows.append([name, f"{item['rows']:,} {item['of']}", said, f"{item['largest_change']:.4f}"])
    print_table(["earlier task", "asked", "answers", "largest change"], rows, console)


def print_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    console: Console = stdout,
    folding: Sequence[str] = (),
) -> None:
    """A plain table; numbers are set to the right, and only `folding` columns break to fit a terminal."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for number, name in enumerate(header):
        cells = [row[number].replace("[bold]", "").replace("[/]", "") for row in rows if row[number]]
        numeric = all(cell[:1].isdigit() or cell[:1] in "-." for cell in cells)
        justify: Literal["left", "right"] = "right" if numeric and cells else "left"
        table.add_column(name, justify=justify, no_wrap=name not in folding, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def print_description(described: dict[str, Any], console: Console = stdout) -> None:
    """What `polytask info` says to people."""
    encoder = described["encoder"]
    console.print(
        f"[bold]{escape(encoder['name'])}[/]  {encoder['architecture']}, {encoder['layers']} layers of "
        f"{encoder['width']}; adapter {described['adapter']}"
    )
    _print_sizes(described["sizes"], console)
    tasks = described["tasks"]
    splits = [s for s in SPLITS if any(s in task.get("rows", {}) for task in tasks.values())]
    rows, answers = [], []
    for name, task in tasks.items():
        given = ", ".join(task.get("labels", ())) or " to ".join(f"{end:g}" for end in task["range"])
        counts = task.get("rows", {})
        shown = [f"{counts[split]:,}" if split in counts else "" for split in splits]
        rows.append([name, task["kind"], INPUTS[task["texts"]], *shown])
        answers.append([name, task["metric"], escape(given)])
    print_table(["task", "kind", "input", *splits], rows, console)
    for task in tasks.values():
        for note in task.get("preparation", {}).get("notes", ()):
            console.print(escape(note), soft_wrap=True)
    console.print()
    print_table(["task", "metric", "answers"], answers, console, folding=["answers"])
    for number, phase in enumerate(described.get("phases", ())):
        console.print(
            f"\nphase {number}: {phase['train']}, {phase['updates']:,} updates, {phase['sampler']}, "
            f"{phase['combine']}, lr {phase['lr']:g}"
        )
        shares = [
            [str(row["epoch"]), *(f"{row['share'][task]:.3f}" for task in phase["tasks"])]
            for row in phase["schedule"]
        ]
        print_table(["epoch", *phase["tasks"]], shares, console)


def print_schedule(described: dict[str, Any], console: Console = stdout) -> None:
    """What `polytask info --schedule` says to people."""
    for phase in described["phases"]:
        tasks = phase["tasks"]
        console.print(
            f"phase {phase['phase']}: {phase['train']}, {phase['sampler']}, {phase['updates']:,} updates, "
            f"{phase['draws']:,} draws"
        )
        for what, heading, digits in (("share", "share of draws", 3), ("passes", "passes over rows", 2)):
            rows = [
                [str(row["epoch"]), *(f"{row[what][task]:.{digits}f}" for task in tasks)]
                for row in phase["schedule"]
            ]
            if what == "passes":
                rows.append(["all", *(f"{phase['passes'][task]:.2f}" for task in tasks)])
            print_table([heading, *tasks], rows, console)
        console.print()
    rows = [
        [task, f"{count:,}", f"{described['passes'][task]:.2f}"] for task, count in described["rows"].items()
    ]
    print_table(["task", "train rows", "times each is seen"], rows, console)


def _print_sizes(sizes: dict[str, Any], console: Console) -> None:
    rows = [["encoder", f"{sizes['encoder']:,}", "", ""]]
    for name, own in sizes["tasks"].items():
        together = own["adapter"] + own["head"]
        rows.append([name, f"{together:,}", f"{own['adapter']:,}", f"{own['head']:,}"])
    rows.append(["all", f"{sizes['parameters']:,}", "", ""])
    print_table(["part", "parameters", "adapter", "head"], rows, console)
    megabytes = ", ".join(f"{size:g} MB in {kind}" for kind, size in sizes["megabytes"].items())
    console.print(f"{sizes['ratio']:.3f} times one encoder; {megabytes}")
    console.print(f"one more task like these adds {sizes['next_task']:,} parameters\n")


def print_sets(sets: Sequence[dict[str, Any]], console: Console = stdout) -> None:
    """What `polytask data list` says to people."""
    rows = []
    for item in sets:
        counts = [f"{count:,}" if (count := item["rows"].get(split)) is not None else "-" for split in SPLITS]
        rows.append([item["name"], item["kind"], INPUTS[item["texts"]], *counts])
    print_table(["name", "kind", "input", *SPLITS], rows, console)
    console.print()
    about = [[item["name"], escape(item["licence"]), escape(item["origin"])] for item in sets]
    print_table(["name", "licence", "from"], about, console, folding=["licence", "from"])


def print_set(shown: dict[str, Any], console: Console = stdout) -> None:
    """What `polytask data show` says to people."""
    rows = {
        split: f"{count:,}" if count is not None else "not here" for split, count in shown["rows"].items()
    }
    revision = shown.get("revision")
    whence = f" at {revision}{'' if shown['pinned'] else ' (not pinned to a commit)'}" if revision else ""
    told = {
        "kind": f"{shown['kind']} of a {INPUTS[len(shown['text'])]}",
        "text": ", ".join(shown["text"]),
        "label": shown["label"],
        "labels": ", ".join(shown.get("labels", {}).values()),
        "range": " to ".join(f"{end:g}" for end in shown.get("range", ())),
        "metric": shown.get("metric", ""),
        "in the mean": "" if shown["in_mean"] else "no",
        "rows": ", ".join(f"{split} {count}" for split, count in rows.items()),
        "dev": "a tenth of train, by the hash of the texts" if shown.get("dev_is_a_tenth_of_train") else "",
        "from": f"{shown['origin']}{whence}",
        "own folder": shown.get("local_folder", ""),
        "licence": shown["licence"],
        "cite": shown["citation"],
    }
    print_table(
        [shown["name"], ""],
        [[key, escape(value)] for key, value in told.items() if value],
        console,
        folding=[""],
    )
