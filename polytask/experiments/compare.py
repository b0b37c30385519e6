"""Recipes by seeds, trained where they are not yet, and compared: what `polytask compare` does."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polytask.errors import UserError
from polytask.experiments.identity import code_digest
from polytask.experiments.page import write_page
from polytask.experiments.plan import find_baseline, load_candidates, plan_runs
from polytask.experiments.pool import Listener, Outcome, Pool, alone_in
from polytask.experiments.results import read_finished, run_tests, summarise
from polytask.experiments.tables import to_csv, to_latex, to_markdown
from polytask.files import write_bytes
from polytask.recipe import Recipe

NAME = "comparison"  # of the files that are written


@dataclass(frozen=True)
class Settings:
    """How recipes are compared."""

    seeds: int = 3
    jobs: int = 1
    minutes: float | None = None
    baseline: str | None = None
    any_code: bool = False

    def check(self) -> None:
        """Refuse numbers that mean nothing."""
        for name in ("seeds", "jobs"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} should be at least 1. Found {getattr(self, name)}.")
        if self.minutes is not None and not self.minutes >= 0:
            raise UserError(f"minutes should not be negative. Found {self.minutes:g}.")


def compare(
    recipes: Sequence[Recipe | str | Path],
    out: str | Path,
    *,
    seeds: int = 3,
    jobs: int = 1,
    minutes: float | None = None,
    baseline: str | None = None,
    any_code: bool = False,
) -> dict[str, Any]:
    """Train every recipe with seeds 1 to `seeds`, each run a process, and compare their dev scores.

    What is finished in `out` is not done again, as long as its recipe, data and code (unless `any_code`) are
    the same; what was begun is gone on with. With `minutes` no run begins that would end later. `baseline`
    names the recipe that the others are tested against, the first by default. Returns what
    `comparison.json` holds; Ctrl-C stops the runs in order and returns too, with `stopped` true.
    """
    settings = Settings(seeds, jobs, minutes, baseline, any_code)
    return run_comparison(recipes, Path(out), settings, lambda event: None)


def run_comparison(
    recipes: Sequence[Recipe | str | Path], out: Path, settings: Settings, listener: Listener
) -> dict[str, Any]:
    """Do what `compare` does, and tell a listener how it goes."""
    settings.check()
    if out.exists() and not out.is_dir():
        raise UserError(f"--out {out}: is a file, not a folder.")
    folder, seeds = out.absolute(), range(1, settings.seeds + 1)
    candidates = load_candidates(recipes)
    against = find_baseline(candidates, settings.baseline)
    planned = plan_runs(candidates, seeds, folder, settings.any_code)
    with alone_in(folder) as lock:
        outcome = Pool(planned, settings.jobs, settings.minutes, listener).work(lock)
        listener({"event": "stage", "message": "comparing"})
        finished = {
            candidate.name: [
                read_finished(run, candidate.tasks)
                for run in sorted(outcome.finished, key=lambda run: run.seed)
                if run.candidate == candidate.name
            ]
            for candidate in candidates
        }
        document: dict[str, Any] = {
            "baseline": against.name,
            "seeds": list(seeds),
            "code": code_digest()[:12],
            "recipes": {name: summarise(runs, folder) for name, runs in finished.items() if runs},
            "tests": run_tests(finished, against),
            **_unfinished(outcome),
        }
        _write(document, folder)
    return document


def is_comparison(folder: Path) -> bool:
    """Whether a comparison was written into a folder."""
    return (folder / f"{NAME}.json").is_file()


def rewrite(folder: Path) -> Path:
    """Write a comparison's tables and page again from its JSON, and return the page's path."""
    path = folder / f"{NAME}.json"
    try:
        _write(json.loads(path.read_bytes()), folder)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{path} is damaged: the compare that wrote it writes it anew.") from None
    return folder / f"{NAME}.html"


def _unfinished(outcome: Outcome) -> dict[str, Any]:
    return {
        "left": [{"recipe": run.candidate, "seed": run.seed} for run in outcome.left],
        "failed": outcome.failed,
        "stopped": outcome.stopped,
    }


def _write(document: dict[str, Any], folder: Path) -> None:
    """The comparison in every form."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    for ending, content in (
        ("json", text),
        ("csv", to_csv(document)),
        ("md", to_markdown(document)),
        ("tex", to_latex(document)),
    ):
        write_bytes(folder / f"{NAME}.{ending}", content.encode("utf-8", errors="replace"))
    write_page(document, folder, folder / f"{NAME}.html")
