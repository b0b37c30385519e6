"""The program as a shell sees it: real processes, pipes, signals and times."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_project import load_recipe

from polytask import api

PROGRAM = [sys.executable, "-m", "polytask"]
CHANGES = ("--set", "phases.0.epochs=1", "--set", "phases.0.steps_per_epoch=4")


@pytest.fixture
def environment(shared_cache: Path) -> dict[str, str]:
    return {**os.environ, "POLYTASK_CACHE": str(shared_cache), "OMP_NUM_THREADS": "1"}


def run(
    environment: dict[str, str], *arguments: object, given: bytes | None = None, **changes: str
) -> "subprocess.CompletedProcess[bytes]":
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(
        command, input=given, capture_output=True, env={**environment, **changes}, check=False, timeout=60
    )


def test_train_info_evaluate_and_predict_print_one_json_document_and_nothing_else(
    tiny: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    trained = run(environment, "train", tiny / "tiny.toml", "--out", out, "--json", *CHANGES, COLUMNS="40")
    assert trained.returncode == 0, trained.stderr
    scores = json.loads(trained.stdout)
    assert scores == json.loads((out / "scores.json").read_text())
    log = trained.stderr.decode().splitlines()
    assert "phase 0: all on mood, alike, tags, 1 epochs, 4 updates" in log
    assert any(line.startswith("epoch 1: mean") and line.endswith("best") for line in log)
    assert "\x1b" not in trained.stderr.decode()
    evaluated = run(environment, "evaluate", out, "--json")
    assert evaluated.returncode == 0
    assert evaluated.stderr == b""
    assert json.loads(evaluated.stdout)["mean"] == scores["mean"]
    described = run(environment, "info", out, "--json")
    assert set(json.loads(described.stdout)["tasks"]) == {"mood", "alike", "tags"}
    predicted = run(environment, "predict", out, tiny / "mood-dev.tsv", "--task", "mood")
    records = [json.loads(line) for line in predicted.stdout.splitlines()]
    assert [record["row"] for record in records] == list(range(30))


def test_tables_fit_eighty_columns_and_no_line_is_broken_in_a_pipe(
    tiny: Path, trained: Path, environment: dict[str, str]
) -> None:
    scored = run(environment, "evaluate", trained, COLUMNS="40").stdout.decode().splitlines()
    assert scored[0].split() == ["task", "metric", "dev", "rows", "score"]
    assert [line.split()[0] for line in scored[1:]] == ["mood", "alike", "tags", "mean"]
    described = run(environment, "info", tiny / "tiny.toml", COLUMNS="40").stdout.decode()
    assert max(map(len, [*scored, *described.splitlines()])) <= 80
    listed = run(environment, "data", "list", COLUMNS="40").stdout.decode()
    counts, about = listed.split("\n\n")
    assert len(about.splitlines()) == len(counts.splitlines())
    assert max(map(len, counts.splitlines())) <= 80
    assert "…" not in listed


def test_predictions_are_utf_8_whatever_the_locale(
    trained: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"id": "😀", "text": "a"}) + '\n{"id": "\\ud800", "text": "\\ud800"}\n')
    found = run(environment, "predict", trained, path, "--task", "mood", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert found.returncode == 0, found.stderr
    ids = [json.loads(line)["id"] for line in found.stdout.decode("utf-8").splitlines()]
    assert ids == ["😀", "\ud800"]


def test_a_reader_that_leaves_ends_the_program_quietly(trained: Path, environment: dict[str, str]) -> None:
    command = [*PROGRAM, "predict", str(trained), "--task", "mood"]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"the film is good\n" * 5000)
        process.stdin.close()
        assert process.stdout.readline().startswith(b'{"row": 0')
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_a_run_that_answers_and_goes_on(
    tiny: Path, environment: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "run"
    long = [*PROGRAM, "train", str(tiny / "tiny.toml"), "--out", str(out), "--set", "phases.0.epochs=2000"]
    with subprocess.Popen(long, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("epoch 1:"):
                process.send_signal(number)
                break
        rest = process.stderr.read()
    assert process.returncode == 1
    assert rest.splitlines()[-1].startswith("polytask: Stopped after update ")
    assert "Traceback" not in rest
    assert len(api.load(out).predict("mood", ["the film is good"])) == 1
    assert (out / "report.html").exists()


def test_a_second_ctrl_c_ends_at_once_and_the_run_goes_on_later(
    tiny: Path, environment: dict[str, str], one_thread: None, tmp_path: Path
) -> None:
    """The first is handled between two updates; this sends many, whichever moment they meet."""
    out = tmp_path / "run"
    arguments = ["train", str(tiny / "tiny.toml"), "--out", str(out), "--set", "phases.0.epochs=100"]
    with subprocess.Popen(
        [*PROGRAM, *arguments], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("epoch 2:"):
                break
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.001)
        rest = process.stderr.read()
    assert process.returncode in (1, -signal.SIGINT, 130)  # the last two: while Python itself was leaving
    assert "polytask: Stopped" in rest or process.returncode != 1
    api.train(load_recipe(tiny, "phases.0.epochs=100"), out, resume=True)
    assert (out / "scores.json").exists()


def test_a_wrong_recipe_ends_with_two_before_torch_is_loaded(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "a.toml").write_text("sed = 3\n")
    code = (
        "import sys; sys.argv = ['polytask', 'train', sys.argv[1]]\n"
        "from polytask.cli import main\n"
        "try: main()\n"
        "finally: assert 'torch' not in sys.modules"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "a.toml")]
    found = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert found.returncode == 2
    assert b"Did you mean 'seed'?" in found.stderr
    assert b"Traceback" not in found.stderr


def seconds_of(code: str, runs: int) -> float:
    """The best of several fresh processes, measured inside, so that a busy machine matters little."""
    script = f"import time; started = time.process_time()\n{code}\nprint(time.process_time() - started)"
    times = [
        float(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout)
        for _ in range(runs)
    ]
    return min(times)


def test_help_takes_half_a_second_and_no_torch() -> None:
    code = """
import contextlib, io, sys
from polytask.cli import main
sys.argv = ["polytask", "--help"]
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
assert "torch" not in sys.modules
"""
    assert seconds_of(code, 2) <= 0.5
    assert min(_wall([*PROGRAM, "--help"]) for _ in range(5)) <= 0.5


def test_polytask_costs_little_more_than_torch() -> None:
    # Interleaved, so that both are measured while the machine is as busy.
    runs = [
        (seconds_of("import torch", 1), seconds_of("import polytask; polytask.train", 1)) for _ in range(6)
    ]
    assert min(both for _, both in runs) - min(torch for torch, _ in runs) <= 0.3


def _wall(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True)
    return time.perf_counter() - started
