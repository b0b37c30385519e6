"""What finished runs come to: means with standard errors, and tests against the baseline."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from polytask.errors import UserError
from polytask.evaluate.metrics import LESS_IS_BETTER, pearson
from polytask.evaluate.resampling import bootstrap, row_terms
from polytask.evaluate.significance import (
    Floats,
    bootstrap_interval,
    holm,
    mcnemar,
    merge_p,
    standard_error,
    williams,
)
from polytask.experiments.plan import Candidate, DevTask, PlannedRun
from polytask.report.answers import Answered, read_answers
from polytask.report.facts import Done, Scores
from polytask.report.read import read_run

RESAMPLES = 10_000
MEAN = "mean"  # over tasks, beside the tasks' names


@dataclass(frozen=True)
class FinishedRun:
    """What is needed of a finished run."""

    planned: PlannedRun
    scores: Scores
    done: Done
    answers: dict[str, Answered]


def read_finished(planned: PlannedRun, tasks: Mapping[str, DevTask]) -> FinishedRun:
    """Read a finished run with its answers to all dev rows."""
    run = read_run(planned.folder)
    answers: dict[str, Answered] = {}
    for name, task in tasks.items():
        path = planned.folder / "predictions" / f"{name}-dev.csv"
        found = read_answers(path, task.kind)
        if (
            found is None
            or not found.whole
            or run.scores is None
            or len(found.ids) != run.scores.tasks[name].rows
        ):
            raise UserError(
                f"{path} is damaged or too long to test: remove {planned.folder} to train it anew."
            )
        answers[name] = found
    assert run.scores is not None
    assert run.done is not None
    return FinishedRun(planned, run.scores, run.done, answers)


def summarise(runs: Sequence[FinishedRun], out: Path) -> dict[str, Any]:
    """One recipe's runs: each by itself, and their means with standard errors."""
    first = runs[0]
    tasks = {
        name: {"metric": task.metric, "rows": task.rows, "in_mean": task.in_mean}
        | _mean([run.scores.tasks[name].score for run in runs])
        for name, task in first.scores.tasks.items()
    }
    means = [run.scores.mean for run in runs if run.scores.mean is not None]
    return {
        "tasks": tasks,
        MEAN: _mean(means) if len(means) == len(runs) else None,
        "parameters": first.done.model_parameters,
        "seconds": round(float(np.mean([run.done.seconds for run in runs])), 3),
        "tokens": round(float(np.mean([run.done.tokens for run in runs]))),
        "runs": [
            {
                "seed": run.planned.seed,
                "folder": run.planned.folder.relative_to(out).as_posix(),
                "scores": {name: task.score for name, task in run.scores.tasks.items()},
                "mean": run.scores.mean,
                "seconds": run.done.seconds,
                "tokens": run.done.tokens,
            }
            for run in runs
        ],
    }


def _mean(values: Sequence[float]) -> dict[str, Any]:
    error = standard_error(values)
    return {
        "mean": round(float(np.mean(values)), 6),
        "standard_error": None if error is None else round(error, 6),
        "runs": len(values),
    }


def run_tests(finished: Mapping[str, Sequence[FinishedRun]], baseline: Candidate) -> list[dict[str, Any]]:
    """Every other recipe against the baseline, on each task and on the mean over tasks; p also by Holm.

    `gain` is how much better the recipe is: positive is better for every metric. `low` and `high` are its
    95 % interval over resampled dev rows, the seeds averaged.
    """
    others = [name for name, runs in finished.items() if name != baseline.name and runs]
    base = finished.get(baseline.name, [])
    if not base or not others:
        return []
    gains: dict[str, dict[str, Floats]] = {name: {} for name in others}
    exact: dict[tuple[str, str], tuple[str, float]] = {}
    for task, dev in baseline.tasks.items():
        _check_same_rows(task, [run for name in [baseline.name, *others] for run in finished[name]])
        found = _resample(task, dev, [base, *(finished[name] for name in others)])
        sign = -1 if dev.metric in LESS_IS_BETTER else 1
        for number, name in enumerate(others, 1):
            gains[name][task] = sign * (found[number] - found[0])
            if (test := _exact(task, dev, finished[name], base)) is not None:
                exact[name, task] = test
    return _corrected(gains, exact, finished, baseline)


def _resample(task: str, dev: DevTask, recipes: Sequence[Sequence[FinishedRun]]) -> Floats:
    """[M, R] each recipe's metric on the same resampled rows."""
    terms = []
    for runs in recipes:
        told = [run.answers[task] for run in runs]
        terms.append([row_terms(dev.metric, each.answers, each.targets, len(each.labels)) for each in told])
    # Tasks are resampled apart from each other, and the same way every time.
    return bootstrap(dev.metric, terms, RESAMPLES, np.random.default_rng(zlib.crc32(task.encode())))


def _exact(
    task: str, dev: DevTask, runs: Sequence[FinishedRun], base: Sequence[FinishedRun]
) -> tuple[str, float] | None:
    """McNemar's test for accuracies, Williams' for correlations, of equal seeds and merged over them."""
    test = {"accuracy": "mcnemar", "pearson": "williams", "spearman": "williams"}.get(dev.metric)
    of_seed = {run.planned.seed: run.answers[task] for run in base}
    pairs = [(run.answers[task], of_seed[run.planned.seed]) for run in runs if run.planned.seed in of_seed]
    if test is None or not pairs:
        return None
    if test == "mcnemar":
        return test, merge_p([mcnemar(~one.wrong, ~other.wrong) for one, other in pairs])
    return test, merge_p([_williams(one, other, dev.metric == "spearman") for one, other in pairs])


def _williams(one: Answered, other: Answered, ranks: bool) -> float:
    from scipy.stats import rankdata

    values = [one.answers, other.answers, one.targets]
    first, second, targets = [rankdata(each) for each in values] if ranks else values
    correlations = pearson(first, targets), pearson(second, targets), pearson(first, second)
    return williams(*correlations, len(targets))


def _corrected(
    gains: Mapping[str, Mapping[str, Floats]],
    exact: Mapping[tuple[str, str], tuple[str, float]],
    finished: Mapping[str, Sequence[FinishedRun]],
    baseline: Candidate,
) -> list[dict[str, Any]]:
    """The tests as plain values; Holm's correction is over all bootstraps, and over all exact tests."""
    in_mean = [name for name, dev in baseline.tasks.items() if dev.in_mean]
    tests: list[dict[str, Any]] = []
    for name, tasks in gains.items():
        resampled = dict(tasks)
        if len(in_mean) > 1:
            resampled[MEAN] = np.mean([tasks[task] for task in in_mean], axis=0)
        for task, differences in resampled.items():
            found = bootstrap_interval(differences)
            gain = _score(task, finished[name], baseline) - _score(task, finished[baseline.name], baseline)
            test = {"recipe": name, "task": task, "gain": round(gain, 6)}
            test |= {"low": round(found.low, 6), "high": round(found.high, 6), "p": found.p}
            if (told := exact.get((name, task))) is not None:
                test["exact"] = {"test": told[0], "p": told[1]}
            tests.append(test)
    for family in (tests, [test["exact"] for test in tests if "exact" in test]):
        for test, p in zip(family, holm([test["p"] for test in family]), strict=True):
            test["p_holm"] = p
    return tests


def _score(task: str, runs: Sequence[FinishedRun], baseline: Candidate) -> float:
    """The mean over seeds of a task's score, or of the mean over tasks; greater is better."""
    if task == MEAN:
        return float(np.mean([run.scores.mean for run in runs]))
    sign = -1 if baseline.tasks[task].metric in LESS_IS_BETTER else 1
    return sign * float(np.mean([run.scores.tasks[task].score for run in runs]))


def _check_same_rows(task: str, runs: Sequence[FinishedRun]) -> None:
    """Rows are paired by their place, so that all runs have to have answered the same ones."""
    first = runs[0].answers[task]
    for run in runs[1:]:
        other = run.answers[task]
        if other.ids != first.ids or _words(other) != _words(first):
            raise UserError(
                f"{run.planned.told()} answered other dev rows of {task} than {runs[0].planned.told()}."
            )


def _words(answered: Answered) -> list[str]:
    return [answered.word(answered.targets, row) for row in range(len(answered.ids))]
