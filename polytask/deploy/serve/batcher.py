"""The bounded queue of rows, and the one thread that takes them through the models."""

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, final

from polytask.deploy.serve.ask import Ask, Texts
from polytask.deploy.serve.catalogue import Catalogue, Served
from polytask.deploy.serve.metrics import Metrics
from polytask.deploy.serve.pick import LOOK, pick
from polytask.deploy.serve.refused import Refused
from polytask.deploy.serve.settings import Settings

BYTES_PER_TOKEN = 4  # English in UTF-8; only the order of rows depends on it
LONGEST_WAIT = 30  # seconds: the largest Retry-After

Answer = dict[str, Any]
log = logging.getLogger("polytask.serve")


@final
class Job:
    """A request's rows on their way; its future holds the answers of every row, by task."""

    def __init__(self, num_rows: int, num_parts: int) -> None:
        self.answers: list[dict[str, Answer]] = [{} for _ in range(num_rows)]
        self.left = num_parts
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[list[dict[str, Answer]]] = self.loop.create_future()


@final
@dataclass(frozen=True, eq=False, slots=True)
class Row:
    """One row of a request and the tasks that one model answers for it."""

    job: Job
    place: int
    texts: Texts
    tasks: tuple[str, ...]
    home: Served
    length: int
    form: object
    turn: int  # rows go by it: those of a large request stand between the requests that come after it


@final
class Batcher:
    """Takes rows from any request, and answers those of like form and length together."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._waiting: deque[Row] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._busy = (
            False  # whether the last batch held several requests, so that more are likely on their way
        )
        self._arrived = 0  # requests so far
        self._rate = 100.0  # rows a second, a moving average
        self._thread = threading.Thread(target=self._work, name="polytask-model", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """End the thread once every row that waits was answered."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    async def answer(self, ask: Ask, catalogue: Catalogue, seconds: float) -> list[dict[str, Answer]]:
        """The answers to a request; raises `Refused` where the queue is full or time runs out."""
        self._arrived += 1
        job, rows = _rows_of(ask, catalogue, self._arrived)
        with self._changed:
            waiting = len(self._waiting)
            if waiting + len(rows) > self._settings.queue and waiting:
                wait = min(LONGEST_WAIT, max(1, math.ceil(waiting / self._rate)))
                raise Refused(
                    503, f"Too many texts are waiting; try again in {wait} s.", {"Retry-After": f"{wait}"}
                )
            self._waiting.extend(rows)
            self._metrics.waiting.set(len(self._waiting))
            self._changed.notify()
        try:
            async with asyncio.timeout(seconds):
                return await job.future
        except TimeoutError:
            raise Refused(504, f"No answer was ready within {self._settings.timeout:g} s.") from None

    def _work(self) -> None:
        while rows := self._next():
            started = time.perf_counter()
            self._answer(rows)
            seconds = time.perf_counter() - started
            self._rate += 0.05 * (len(rows) / seconds - self._rate)
            self._metrics.batch(len(rows), seconds)

    def _next(self) -> list[Row]:
        """The next rows to answer together; none once the queue is closed and empty."""
        with self._changed:
            while True:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if self._busy and not self._closed:
                    self._wait_for_more()
                waiting = [row for row in self._waiting if not row.job.future.done()]  # others gave up
                waiting.sort(key=lambda row: row.turn)
                rows = self._choose(waiting) if waiting else []
                taken = set(map(id, rows))
                self._waiting = deque(row for row in waiting if id(row) not in taken)
                self._metrics.waiting.set(len(self._waiting))
                if rows or self._closed:
                    self._busy = rows[-1:] != [] and any(row.job is not rows[0].job for row in rows)
                    return rows

    def _wait_for_more(self) -> None:
        """Give requests that are being read a moment to join."""
        until = time.perf_counter() + self._settings.patience
        while sum(row.length for row in islice(self._waiting, LOOK)) < self._settings.batch_tokens:
            left = until - time.perf_counter()
            if left <= 0 or not self._changed.wait(left):
                return

    def _choose(self, waiting: list[Row]) -> list[Row]:
        if not self._settings.batch_tokens:
            return [row for row in waiting if row.job is waiting[0].job and row.form == waiting[0].form]
        return pick(waiting[:LOOK], self._settings.batch_tokens)

    def _answer(self, rows: list[Row]) -> None:
        """Answer rows; where that fails, each request by itself, so that none fails for another's text."""
        jobs = {row.job: None for row in rows}
        try:
            found = predict_rows(rows)
        except Exception as error:  # whatever it is, the thread must go on
            if len(jobs) == 1:
                log.exception("a model call failed")
                rows[0].job.loop.call_soon_threadsafe(_fail, rows[0].job, error)
                return
            for job in jobs:
                self._answer([row for row in rows if row.job is job])
            return
        for loop in {job.loop for job in jobs}:
            loop.call_soon_threadsafe(_deliver, rows, found, loop)


def _rows_of(ask: Ask, catalogue: Catalogue, arrived: int) -> tuple[Job, list[Row]]:
    """A job, and a row for every text and model that answers it."""
    parts: dict[object, list[str]] = {}
    for name in ask.tasks:
        parts.setdefault(_form(catalogue.homes[name], name), []).append(name)
    job = Job(len(ask.rows), len(ask.rows) * len(parts))
    rows = []
    for names in parts.values():
        home = catalogue.homes[names[0]]
        for place, texts in enumerate(ask.rows):
            size = sum(len(text) if text.isascii() else len(text.encode()) for text in texts)
            length = min(size // BYTES_PER_TOKEN + 1 + len(texts), home.max_length)
            rows.append(
                Row(job, place, texts, tuple(names), home, length, _form(home, names[0]), arrived + place)
            )
    return job, rows


def _form(home: Served, name: str) -> object:
    """Equal for tasks whose texts one model takes in the same way."""
    task = home.model.tasks[name]
    return id(home), task.texts, task.separate


def predict_rows(rows: Sequence[Row]) -> list[dict[str, Answer]]:
    """The answers of each row by task; all have one form.

    Where tasks have layers of their own, only rows that are asked the same tasks share a pass.
    """
    home = rows[0].home
    if home.one_pass:
        names = tuple(dict.fromkeys(name for row in rows for name in row.tasks))
        return _predict(home, rows, names)
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(row.tasks, []).append(number)
    found: list[dict[str, Answer]] = [{} for _ in rows]
    for names, numbers in groups.items():
        answers = _predict(home, [rows[number] for number in numbers], names)
        for number, answer in zip(numbers, answers, strict=True):
            found[number] = answer
    return found


def _predict(home: Served, rows: Sequence[Row], names: Sequence[str]) -> list[dict[str, Answer]]:
    texts: Any = [row.texts if len(row.texts) == 2 else row.texts[0] for row in rows]
    found = home.model.predict(dict.fromkeys(names, texts))
    return [{name: found[name][number] for name in row.tasks} for number, row in enumerate(rows)]


def _deliver(
    rows: Sequence[Row], found: Sequence[dict[str, Answer]], loop: asyncio.AbstractEventLoop
) -> None:
    """On the event loop: hand rows to their requests, and finish those that have all of theirs."""
    for row, answer in zip(rows, found, strict=True):
        job = row.job
        if job.loop is not loop:
            continue
        job.answers[row.place].update(answer)
        job.left -= 1
        if job.left == 0 and not job.future.done():
            job.future.set_result(job.answers)


def _fail(job: Job, error: Exception) -> None:
    if not job.future.done():
        job.future.set_exception(error)
