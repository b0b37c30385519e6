"""Runs as processes of their own: some at a time, within a budget, stopped in order."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from polytask.errors import UserError
from polytask.experiments.plan import PlannedRun, is_finished
from polytask.files import write_bytes

PATIENCE = 120.0  # seconds that a run has to stop in order
LOOK_EVERY = 0.05  # seconds between looks at the processes
SAY_EVERY = 15.0  # seconds between lines of progress

Listener = Callable[[dict[str, Any]], None]


@dataclass
class Outcome:
    """What became of the runs; `failed` has the last words of each run that failed."""

    finished: list[PlannedRun] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    left: list[PlannedRun] = field(default_factory=list)
    stopped: bool = False  # by Ctrl-C


@dataclass
class _Process:
    run: PlannedRun
    process: "subprocess.Popen[bytes]"
    started: float


@contextmanager
def alone_in(folder: Path) -> Iterator[int]:
    """See to it that no other comparison works in a folder; yields a handle that its runs have to inherit.

    The lock lasts as long as any process has the handle, so also until the last run of one that was killed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"--out {folder}: another comparison is at work in this folder.") from None
        yield file.fileno()


@final
class Pool:
    """Does what is left of a list of runs."""

    def __init__(
        self, runs: Sequence[PlannedRun], jobs: int, minutes: float | None, listener: Listener
    ) -> None:
        self._outcome = Outcome()
        self._listener = listener
        self._jobs = jobs
        self._budget = minutes * 60 if minutes is not None else float("inf")
        self._working: list[_Process] = []
        self._began = self._said = time.monotonic()
        self._waiting: list[PlannedRun] = []
        self._durations: dict[str, list[float]] = {}
        for run in runs:
            if is_finished(run.folder):
                self._outcome.finished.append(run)
                self._remember(run)
            else:
                self._waiting.append(run)
        self._total = len(runs)

    def work(self, lock: int) -> Outcome:
        """Run what is not finished, `jobs` at a time; Ctrl-C or SIGTERM stops the runs in order."""
        before = signal.signal(signal.SIGTERM, signal.default_int_handler) if _in_main_thread() else None
        self._tell("begin", finished=len(self._outcome.finished), total=self._total)
        try:
            while self._waiting or self._working:
                while self._waiting and len(self._working) < self._jobs and self._fits(self._waiting[0]):
                    self._start(self._waiting.pop(0), lock)
                if not self._working:
                    self._skip_or_stop()
                    continue
                time.sleep(LOOK_EVERY)
                for each in [each for each in self._working if each.process.poll() is not None]:
                    self._working.remove(each)
                    self._end(each)
                self._progress()
        except KeyboardInterrupt:
            self._stop()
            self._outcome.stopped = True
        finally:
            for each in self._working:  # after a second Ctrl-C, or a mistake here
                each.process.kill()
            if before is not None:
                signal.signal(signal.SIGTERM, before)
        self._outcome.left += self._waiting
        return self._outcome

    def _fits(self, run: PlannedRun) -> bool:
        """Whether a run would end within the budget, as far as finished ones tell."""
        expected = self._expected(run)
        return time.monotonic() - self._began + (expected or 0.0) <= self._budget

    def _skip_or_stop(self) -> None:
        """Leave the first waiting run, which does not fit the budget; another recipe's may be shorter."""
        self._outcome.left.append(self._waiting.pop(0))

    def _expected(self, run: PlannedRun) -> float | None:
        """The mean seconds of the recipe's finished runs, or of all; None as long as there are none."""
        own = self._durations.get(run.candidate) or [
            seconds for each in self._durations.values() for seconds in each
        ]
        return sum(own) / len(own) if own else None

    def _start(self, run: PlannedRun, lock: int) -> None:
        run.folder.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(run.written, run.recipe.to_toml().encode())
        if not run.note.exists():
            write_note(run, 0.0)
        command = [sys.executable, "-m", "polytask", "train", str(run.written), "--out", str(run.folder)]
        if (run.folder / "recipe.toml").is_file():
            command.append("--resume")
        elif run.folder.exists():  # killed before it had written its recipe: there is nothing to go on with
            shutil.rmtree(run.folder)
        with run.log.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - our own module, and no shell
                [*command, "--json"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=_environment(self._jobs),
                start_new_session=True,  # Ctrl-C reaches it through this process alone, so once
                pass_fds=(lock,),
            )
        self._working.append(_Process(run, process, time.monotonic()))
        self._tell("start", run=run.told(), resumed=command[-1] == "--resume")

    def _end(self, each: _Process) -> None:
        run, seconds = each.run, time.monotonic() - each.started
        write_note(run, _read_seconds(run) + seconds)
        if each.process.returncode == 0 and is_finished(run.folder):
            shutil.rmtree(run.folder / "checkpoints", ignore_errors=True)  # its model stays
            self._outcome.finished.append(run)
            self._remember(run)
            mean = json.loads((run.folder / "scores.json").read_bytes())["mean"]
            self._tell("finish", run=run.told(), seconds=seconds, mean=mean, **self._counts())
        else:
            self._outcome.failed[run.told()] = _last_words(run, each.process.returncode)
            self._tell("fail", run=run.told(), message=self._outcome.failed[run.told()])

    def _remember(self, run: PlannedRun) -> None:
        if (seconds := _read_seconds(run)) > 0:
            self._durations.setdefault(run.candidate, []).append(seconds)

    def _stop(self) -> None:
        """Ask every run to stop after its update, and wait until it has."""
        self._tell("stop", runs=[each.run.told() for each in self._working])
        for each in self._working:
            each.process.send_signal(signal.SIGINT)
        until = time.monotonic() + PATIENCE
        for each in list(self._working):
            with suppress(subprocess.TimeoutExpired):
                each.process.wait(max(0.0, until - time.monotonic()))
                self._working.remove(each)
                write_note(each.run, _read_seconds(each.run) + time.monotonic() - each.started)
            finished = self._outcome.finished if is_finished(each.run.folder) else self._outcome.left
            finished.append(each.run)

    def _progress(self) -> None:
        if time.monotonic() - self._said >= SAY_EVERY and self._working:
            self._said = time.monotonic()
            self._tell("progress", runs=[each.run.told() for each in self._working], **self._counts())

    def _counts(self) -> dict[str, Any]:
        """How many runs are done, and the seconds that the others take; None as long as nothing is known."""
        now = time.monotonic()
        rest = [(run, 0.0) for run in self._waiting]
        rest += [(each.run, now - each.started) for each in self._working]
        expected = [(self._expected(run), gone) for run, gone in rest]
        known = all(seconds is not None for seconds, _ in expected)
        left = sum(max(0.0, (seconds or 0.0) - gone) for seconds, gone in expected) / self._jobs
        counts = {"finished": len(self._outcome.finished), "total": self._total}
        return {**counts, "seconds_left": left if known else None}

    def _tell(self, event: str, **values: Any) -> None:
        self._listener({"event": event, **values})


def write_note(run: PlannedRun, seconds: float) -> None:
    """Keep beside a run what it is recognised by and the wall-clock seconds that it has taken so far."""
    note = {"seed": run.seed, "identity": run.identity, "seconds": round(seconds, 3)}
    write_bytes(run.note, (json.dumps(note, indent=2) + "\n").encode())


def _read_seconds(run: PlannedRun) -> float:
    try:
        return float(json.loads(run.note.read_bytes())["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0


def _environment(jobs: int) -> dict[str, str]:
    """The cores are shared out between the runs, unless the user did so."""
    threads = max(1, (os.cpu_count() or 1) // jobs)
    return {"OMP_NUM_THREADS": str(threads), **os.environ} if jobs > 1 else dict(os.environ)


def _last_words(run: PlannedRun, code: int) -> str:
    """Why a run failed, by its log."""
    lines = run.log.read_text(encoding="utf-8", errors="replace").splitlines() if run.log.is_file() else []
    said = [line for line in lines if line.startswith("polytask: ")][-1:] or lines[-1:]
    if code < 0:
        return f"killed by signal {-code}; the next compare goes on with it"
    return said[0].removeprefix("polytask: ") if said else f"ended with exit code {code}"


def _in_main_thread() -> bool:
    import threading

    return threading.current_thread() is threading.main_thread()
