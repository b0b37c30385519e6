"""How a run's names and numbers are written for people."""

from polytask.evaluate.metrics import LESS_IS_BETTER
from polytask.report.facts import TaskScore

BASELINE_NAMES = {"majority": "Majority or mean", "tfidf": "TF-IDF"}
BASELINE_COLOURS = {"majority": "floor", "tfidf": "baseline"}
ALONE, ALONE_COLOUR = "Trained alone", "task4"  # the score of a model of one task
NUM_COLOURS = 8  # of tasks, before a chart has to do without


def baseline_name(key: str) -> str:
    """A baseline as a reader knows it."""
    return BASELINE_NAMES.get(key, key)


def baseline_colour(key: str, position: int) -> str:
    """The name of a baseline's colour; `position` chooses it for one that is not known."""
    return BASELINE_COLOURS.get(key, f"task{2 + position % (NUM_COLOURS - 2)}")


def best_baseline(task: TaskScore) -> tuple[str, float] | None:
    """The baseline that is hardest to beat, and its score."""
    sign = -1 if task.metric in LESS_IS_BETTER else 1
    return max(task.baselines.items(), key=lambda item: sign * item[1], default=None)


def gain(task: TaskScore) -> float | None:
    """How much better than its best baseline a task is; positive is better for every metric."""
    strongest = best_baseline(task)
    if strongest is None:
        return None
    return gained(task.metric, task.score, strongest[1])


def gained(metric: str, score: float, other: float) -> float:
    """How much better one score is than another; positive is better for every metric."""
    return other - score if metric in LESS_IS_BETTER else score - other


def decimal(value: float | None, digits: int = 3, sign: bool = False) -> str:
    """A score; a dash where there is none."""
    if value is None:
        return "–"
    text = f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"
    text = text if abs(value) < 1e6 else f"{value:.3g}"
    return text.replace("-", "\u2212")


def whole(value: int | None) -> str:
    """A count with its thousands set apart."""
    return "–" if value is None else f"{value:,}"


def short(value: float) -> str:
    """A big number with its unit: 22.7M."""
    for unit in ("", "k", "M", "G"):
        if value < 999.5:
            return f"{value:.3g}{unit}" if unit else f"{value:.0f}"
        value /= 1000
    return f"{value:,.0f}T"


def duration(seconds: float) -> str:
    """3 h 05 min, 12 min 30 s or 4.2 s."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60:,} h {minutes % 60:02d} min"
