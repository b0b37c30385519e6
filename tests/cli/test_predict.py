"""`polytask predict` as a shell sees it: files written whole or up to a row, and what is said about them."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-m", "polytask", "predict"]


@pytest.fixture
def environment(shared_cache: Path) -> dict[str, str]:
    return {**os.environ, "POLYTASK_CACHE": str(shared_cache), "OMP_NUM_THREADS": "1"}


def run(environment: dict[str, str], *arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, env=environment, check=False, text=True, timeout=60)


def test_a_file_of_answers_and_one_sentence(
    trained: Path, tiny: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "answers.csv"
    done = run(environment, trained, tiny / "mood-dev.tsv", "--out", out)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "30 rows answered.\n")
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["row"] for row in rows[::2]] == [str(number) for number in range(30)]
    assert {row["task"] for row in rows} == {"mood", "tags"}
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text": 3}\n{"text": "b"}\n')
    done = run(
        *(environment, trained, tmp_path / "bad.jsonl", "--task", "mood", "--bad-rows", "skip"),
        *("--out", tmp_path / "b.jsonl", "--json"),
    )
    assert json.loads(done.stdout) == {"out": str(tmp_path / "b.jsonl"), "rows": 2, "bad_rows": 1}
    assert done.stderr.startswith("skipped ")
    assert "bad.jsonl:2: 'text' should be text" in done.stderr


def test_a_bad_row_ends_it_with_what_was_answered_before_kept(
    trained: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n{"text": 3}\n')
    done = run(environment, trained, tmp_path / "bad.jsonl", "--task", "mood", "--out", tmp_path / "o.jsonl")
    assert done.returncode == 2
    assert "the last answered is row 1 (from 0)" in done.stderr
    assert "polytask: " in done.stderr.splitlines()[-1]
    assert len((tmp_path / "o.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--format", "xml"], "--format should be one of jsonl, csv"),
        (["--format", "csv", "--json"], "--json prints one JSON document"),
        (["--bad-rows", "keep"], "--bad-rows should be one of stop, skip"),
        (["--text", "a"], "--text names columns of a file"),
        (["--out", "."], "is a folder"),
        (["--out", "no/where.csv"], "there is no folder"),
    ],
)
def test_a_wrong_option_is_named(
    trained: Path, environment: dict[str, str], arguments: list[str], said: str
) -> None:
    done = run(environment, trained, "-", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_file_that_is_read_is_not_written_over(
    trained: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "a.tsv").write_text("text\nfine\n")
    done = run(environment, trained, tmp_path / "a.tsv", "--out", tmp_path / "a.tsv")
    assert (done.returncode, (tmp_path / "a.tsv").read_text()) == (2, "text\nfine\n")
    assert "is the file that is read" in done.stderr
    run(environment, trained, tmp_path / "a.tsv", "--task", "nothing", "--out", tmp_path / "o.jsonl")
    assert not (tmp_path / "o.jsonl").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_prediction_leaves_whole_rows_and_says_where(
    trained: Path, environment: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    given, out = tmp_path / "long.tsv", tmp_path / "o.jsonl"
    given.write_text("text\n" + "the film is good\n" * 400_000)
    command = [*PROGRAM, str(trained), str(given), "--out", str(out)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while process.poll() is None and (not out.exists() or out.stat().st_size == 0):
            time.sleep(0.01)
        process.send_signal(number)
        said = process.stderr.read()
    assert process.returncode == 1
    records = [json.loads(line) for line in out.read_text().splitlines()]
    last = records[-1]["row"]
    assert [record["row"] for record in records] == [row for row in range(last + 1) for _ in range(2)]
    assert said == (
        f"polytask: stopped in {given}: the last answered is row {last:,} (from 0); "
        f"{out} holds {last + 1:,} whole rows.\n"
    )
