"""A run folder is read as far as it is whole, and what is not is named."""

import json
import math
from pathlib import Path

import pytest
from fake_run import write_run

from polytask.report import read
from polytask.report.read import read_run
from polytask.report.words import decimal, duration, short

UPDATE = {"event": "update", "phase": 0, "update": 1, "epoch": 1, "seconds": 1.0, "tokens": 9, "lr": 1e-4}


def write_events(folder: Path, *lines: object) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / "events.jsonl").write_text("\n".join(texts))
    return folder


def test_a_finished_run_is_read_whole(tmp_path: Path) -> None:
    run = read_run(write_run(tmp_path, ["sst", "sts"], updates=50, phases=2))
    assert run.missing == []
    assert run.tasks == ["sst", "sts"]
    assert (len(run.phases), len(run.evaluations)) == (2, 6)
    assert run.done
    assert run.done.rows["sst"].train == 7443
    assert run.scores
    assert run.scores.tasks["sst"].baselines["tfidf"] == 0.399


def test_bad_lines_are_counted_and_the_first_is_named(tmp_path: Path) -> None:
    bad = ("{", "[]", {"event": 3}, {**UPDATE, "losses": {"a": "x"}}, {**UPDATE, "update": -1, "losses": {}})
    run = read_run(write_events(tmp_path, {**UPDATE, "losses": {"a": 1.0}}, *bad))
    assert len(run.updates) == 1
    assert "events.jsonl has 5 lines that could not be read, the first is line 2." in run.missing


def test_events_of_other_kinds_are_no_mistake(tmp_path: Path) -> None:
    run = read_run(write_events(tmp_path, {"event": "checkpoint", "path": "x"}, ""))
    assert not any("could not be read" in line for line in run.missing)


def test_a_loss_that_is_not_a_number_does_not_lose_the_update(tmp_path: Path) -> None:
    run = read_run(write_events(tmp_path, {**UPDATE, "losses": {"a": math.nan, "b": 1.0}}))
    assert math.isnan(run.updates[0].losses["a"])


def test_what_a_resumed_run_did_again_counts_once(tmp_path: Path) -> None:
    events = [
        {**UPDATE, "update": n, "losses": {"a": loss}} for n, loss in ((1, 5), (2, 4), (3, 3), (2, 2), (3, 1))
    ]
    run = read_run(write_events(tmp_path, *events))
    assert [(each.update, each.losses["a"]) for each in run.updates] == [(1, 5), (2, 2), (3, 1)]


def test_a_number_too_large_for_a_page_is_refused(tmp_path: Path) -> None:
    run = read_run(write_events(tmp_path, {**UPDATE, "update": 2**60, "losses": {}}))
    assert run.updates == []


def test_reading_stops_at_the_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_EVENTS", 3)
    events = [{**UPDATE, "update": n, "losses": {}} for n in range(10)]
    run = read_run(write_events(tmp_path, *events))
    assert len(run.updates) == 3
    assert "events.jsonl was read up to line 3 only." in run.missing


def test_a_long_course_is_cut_but_its_end_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_KEPT", 4)
    run = read_run(write_run(tmp_path, ["sst"], updates=20))
    assert len(run.updates) == 4
    assert run.done
    assert run.missing == ["events.jsonl is long: curves show its first 4 updates and evaluations."]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4.21, "4.2 s"), (59.96, "1 min 00 s"), (750, "12 min 30 s"), (11_100, "3 h 05 min")],
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (950, "950"), (2600, "2.6k"), (999_999, "1M"), (22_713_216, "22.7M"), (1e15, "1,000T")],
)
def test_big_numbers_read_well(value: float, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.7314, "0.731"), (-0.5, "\N{MINUS SIGN}0.500"), (1e300, "1e+300")]
)
def test_scores_read_well(value: float | None, text: str) -> None:
    assert decimal(value) == text
