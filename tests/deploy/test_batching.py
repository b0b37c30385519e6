"""Rows of all requests share model calls, the queue is bounded, and nobody suffers for another's text."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polytask.deploy.serve.ask import Ask
from polytask.deploy.serve.batcher import Batcher
from polytask.deploy.serve.catalogue import Catalogue
from polytask.deploy.serve.metrics import Metrics
from polytask.deploy.serve.pick import FREE_PADDING, PADDING, pick
from polytask.deploy.serve.refused import Refused
from polytask.deploy.serve.settings import Settings


@dataclass(frozen=True, eq=False)
class Waits:
    """A row as a choice sees it."""

    form: int
    length: int


rows = st.lists(st.builds(Waits, st.integers(0, 2), st.integers(1, 512)), min_size=1, max_size=60)


@given(rows, st.integers(1, 4096))
def test_the_row_that_waits_longest_goes_with_others_of_its_form_within_the_budget(
    waiting: list[Waits], budget: int
) -> None:
    taken = pick(waiting, budget)
    assert waiting[0] in taken
    assert len({id(row) for row in taken}) == len(taken)
    assert {row.form for row in taken} == {waiting[0].form}
    if len(taken) > 1:
        width, real = max(row.length for row in taken), sum(row.length for row in taken)
        assert width * len(taken) <= budget
        assert width * len(taken) - real <= max(FREE_PADDING, PADDING * real)


@given(st.integers(1, 512), st.integers(1, 60), st.integers(1, 8192))
def test_rows_of_one_length_fill_the_budget(length: int, count: int, budget: int) -> None:
    taken = pick([Waits(0, length) for _ in range(count)], budget)
    assert len(taken) == min(count, max(1, budget // length))


def test_a_long_row_does_not_pad_short_ones() -> None:
    waiting = [Waits(0, 10), Waits(0, 500), *(Waits(0, 10) for _ in range(40))]
    assert {row.length for row in pick(waiting, 100_000)} == {10}


class Counted:
    """The trained model with a count of its calls, which can be held up."""

    def __init__(self, catalogue: Catalogue) -> None:
        (self.served,) = catalogue.models.values()
        self.predict = self.served.model.predict
        self.calls: list[int] = []
        self.gate: Event | None = None

    def __call__(self, asked: dict[str, list[Any]]) -> Any:
        if self.gate is not None:
            self.gate.wait(10)
        if any("poison" in text for texts in asked.values() for text in texts):
            raise RuntimeError("no such text")
        self.calls.append(len(next(iter(asked.values()))))
        return self.predict(asked)


@pytest.fixture
def catalogue(trained: Path) -> Catalogue:
    return Catalogue.open(trained)


@pytest.fixture
def counted(catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch) -> Counted:
    found = Counted(catalogue)
    monkeypatch.setattr(found.served.model, "predict", found)
    return found


def run(settings: Settings, work: Any) -> Any:
    """Give `work` a batcher on an event loop of its own."""

    async def inside() -> Any:
        batcher = Batcher(settings, Metrics())
        batcher.start()
        try:
            return await work(batcher)
        finally:
            await asyncio.to_thread(batcher.close)

    return asyncio.run(inside())


def ask(*texts: str, tasks: tuple[str, ...] = ("mood",)) -> Ask:
    return Ask([(text,) for text in texts], tasks)


def test_requests_of_different_tasks_share_a_call(catalogue: Catalogue, counted: Counted) -> None:
    counted.gate = gate = Event()

    async def work(batcher: Batcher) -> Any:
        first = asyncio.create_task(batcher.answer(ask("one"), catalogue, 10))
        await asyncio.sleep(0.1)  # that call is on its way, the others queue up
        asked = [ask(f"text {n}", tasks=(("mood",), ("tags",), ("tags", "mood"))[n % 3]) for n in range(9)]
        others = [asyncio.create_task(batcher.answer(one, catalogue, 10)) for one in asked]
        await asyncio.sleep(0.1)
        gate.set()
        return [await task for task in (first, *others)]

    found = run(Settings(), work)
    assert counted.calls == [1, 9]
    assert [set(answers[0]) for answers in found[1:4]] == [{"mood"}, {"tags"}, {"mood", "tags"}]


def test_without_batching_each_request_is_a_call(catalogue: Catalogue, counted: Counted) -> None:
    async def work(batcher: Batcher) -> Any:
        asked = [ask("a", "b c d e f g h i j k l m n o p q r s t u v w x y z"), ask("c"), ask("d")]
        return await asyncio.gather(*(batcher.answer(one, catalogue, 10) for one in asked))

    found = run(Settings(batch_tokens=0), work)
    assert [len(answers) for answers in found] == [2, 1, 1]
    assert counted.calls == [2, 1, 1]


def test_a_full_queue_says_when_to_try_again_and_recovers(catalogue: Catalogue, counted: Counted) -> None:
    counted.gate = gate = Event()

    async def work(batcher: Batcher) -> None:
        going = [asyncio.create_task(batcher.answer(ask("one"), catalogue, 10))]
        await asyncio.sleep(0.1)
        going.append(asyncio.create_task(batcher.answer(ask(*"abcd"), catalogue, 10)))
        await asyncio.sleep(0)
        with pytest.raises(Refused, match="Too many texts") as caught:
            await batcher.answer(ask("e"), catalogue, 10)
        assert caught.value.status == 503
        assert 1 <= int(caught.value.headers["Retry-After"]) <= 30
        gate.set()
        assert len(await going[1]) == 4
        assert len(await batcher.answer(ask("e"), catalogue, 10)) == 1

    run(Settings(queue=4, max_texts=4), work)


def test_a_request_that_waits_too_long_is_given_up_and_its_rows_are_not_run(
    catalogue: Catalogue, counted: Counted
) -> None:
    counted.gate = gate = Event()

    async def work(batcher: Batcher) -> None:
        first = asyncio.create_task(batcher.answer(ask("one"), catalogue, 10))
        await asyncio.sleep(0.1)
        with pytest.raises(Refused, match="No answer was ready") as caught:
            await batcher.answer(ask("two", "three"), catalogue, 0.05)
        assert caught.value.status == 504
        gate.set()
        await first
        await batcher.answer(ask("four"), catalogue, 10)

    run(Settings(), work)
    assert counted.calls == [1, 1]


def test_one_request_that_fails_does_not_fail_the_others(catalogue: Catalogue, counted: Counted) -> None:
    counted.gate = gate = Event()

    async def work(batcher: Batcher) -> Any:
        first = asyncio.create_task(batcher.answer(ask("one"), catalogue, 10))
        await asyncio.sleep(0.1)
        asked = (ask("good"), ask("poison"), ask("bad"))
        others = asyncio.gather(*(batcher.answer(a, catalogue, 10) for a in asked), return_exceptions=True)
        await asyncio.sleep(0)
        gate.set()
        await first
        return await others

    good, poison, bad = run(Settings(), work)
    assert isinstance(poison, RuntimeError)
    assert len(good) == len(bad) == 1


def test_closing_answers_what_waits(catalogue: Catalogue, counted: Counted) -> None:
    async def inside() -> list[Any]:
        batcher = Batcher(Settings(batch_tokens=0), Metrics())
        batcher.start()
        going = [asyncio.create_task(batcher.answer(ask(f"text {n}"), catalogue, 10)) for n in range(20)]
        await asyncio.sleep(0)
        await asyncio.to_thread(batcher.close)
        assert not batcher.alive
        return await asyncio.gather(*going)

    assert len(asyncio.run(inside())) == 20


def test_a_large_request_does_not_keep_a_small_one_waiting_for_all_of_it(
    catalogue: Catalogue, counted: Counted
) -> None:
    counted.gate = gate = Event()
    ended: list[str] = []

    async def work(batcher: Batcher) -> None:
        async def one(name: str, asked: Ask) -> None:
            await batcher.answer(asked, catalogue, 10)
            ended.append(name)

        going = [asyncio.create_task(one("first", ask("one")))]
        await asyncio.sleep(0.1)
        for name, asked in (("large", ask(*["the film is good"] * 64)), ("small", ask("the song is bad"))):
            going.append(asyncio.create_task(one(name, asked)))
            await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*going)

    run(Settings(batch_tokens=64), work)
    assert ended == ["first", "small", "large"]


def test_tasks_with_layers_of_their_own_share_a_call_where_they_are_asked_together(
    catalogue: Catalogue, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(counted.served.model.config, "adapter", {"kind": "pal"})

    async def work(batcher: Batcher) -> Any:
        asked = [ask("a"), ask("b", tasks=("tags",)), ask("c"), ask("d", tasks=("mood", "tags"))]
        coroutines: list[Coroutine[Any, Any, Any]] = [batcher.answer(one, catalogue, 10) for one in asked]
        return await asyncio.gather(*coroutines)

    found = run(replace(Settings(), patience=0.05), work)
    assert [set(answers[0]) for answers in found] == [{"mood"}, {"tags"}, {"mood"}, {"mood", "tags"}]
    assert sum(counted.calls) == 4
