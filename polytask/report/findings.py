"""What a run comes to, in a few sentences at the head of its report."""

from polytask.report.facts import Scores
from polytask.report.read import Run
from polytask.report.words import decimal, gain, gained


def findings(run: Run) -> list[str]:
    """Sentences on what its scores show; none without scores."""
    scores = run.scores
    if scores is None:
        return []
    told = scores.conflict.verdict if scores.conflict else ""
    return [
        said for said in (_over_baselines(scores), _over_alone(scores), _forgetting(scores), told) if said
    ]


def _over_baselines(scores: Scores) -> str:
    gains = {name: found for name, task in scores.tasks.items() if (found := gain(task)) is not None}
    if not gains:
        return ""
    below = [name for name, value in gains.items() if value <= 0]
    least = min(gains, key=lambda name: gains[name])
    if below:
        verb = "does" if len(below) == 1 else "do"
        return f"{_some(below)} {verb} not beat what a model without an encoder reaches."
    if len(gains) == 1:
        return f"{least} beats its best baseline by {decimal(gains[least])}."
    over = decimal(gains[least], sign=True)
    return f"All {len(gains)} tasks beat their best baseline; the least gain is that of {least}, {over}."


def _over_alone(scores: Scores) -> str:
    alone = scores.single.tasks if scores.single else {}
    over = {
        name: gained(task.metric, task.score, alone[name].score)
        for name, task in scores.tasks.items()
        if name in alone
    }
    if not over:
        return ""
    better = sum(value > 0 for value in over.values())
    mean = sum(over.values()) / len(over)
    return (
        f"Against the same tasks trained alone, {better} of {len(over)} score higher together; "
        f"the mean difference is {decimal(mean, sign=True)}."
    )


def _forgetting(scores: Scores) -> str:
    lost = scores.transfer.forgetting if scores.transfer else {}
    if not lost:
        return ""
    most = max(lost, key=lambda name: lost[name])
    if lost[most] <= 0:
        return "Later phases cost the earlier tasks nothing."
    return f"Later phases cost the earlier tasks; most of all {most}, by {decimal(lost[most])}."


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])[:200]} and {names[-1]}"
