"""Several processes train what one would: the same losses, one writer, and nothing left hanging."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from observed import Event, assert_same_run, last_checkpoint, read_events
from tiny_project import load_recipe

from polytask import api
from polytask.errors import UserError
from polytask.train.parallel import LostProcessError
from polytask.train.state import TrainingStopped

STILL = ("dropout=0", *(f"tasks.{task}.dropout=0" for task in ("mood", "alike", "tags")))
JOINT = ("phases.0.epochs=1", "phases.0.steps_per_epoch=50", "phases.0.sampler=joint")
MIXED = ("phases.0.sampler={kind='compromise', draws=5}", "tasks.alike.pairs=separate", "adapter=pal_top")
FIRST = ("phases.0.epochs=2", "phases.0.steps_per_epoch=15", "checkpoint_seconds=0")


def losses(run: Path) -> list[dict[str, float]]:
    return [event["losses"] for event in read_events(run) if event["event"] == "update"]


def test_two_processes_have_the_losses_and_scores_of_one(
    tiny: Path, one_thread: None, tmp_path: Path
) -> None:
    recipe = load_recipe(tiny, *JOINT, *STILL, "phases.0.loss_weights=uncertainty")
    alone, together = tmp_path / "alone", tmp_path / "together"
    api.train(recipe, alone)
    run = api.train(recipe, together, processes=2)
    for one, two in zip(losses(alone), losses(together), strict=True):
        assert two == pytest.approx(one, abs=1e-4)
    for key in ("tokens", "update"):
        assert [event.get(key) for event in read_events(alone)] == [e.get(key) for e in read_events(together)]
    scores = json.loads((alone / "scores.json").read_text())
    assert run.scores["mean"] == pytest.approx(scores["mean"], abs=1e-3)
    assert run.scores == json.loads((together / "scores.json").read_text())


def test_two_processes_share_mixed_draws_of_fewer_rows_than_there_are_processes(
    tiny: Path, one_thread: None, tmp_path: Path
) -> None:
    recipe = load_recipe(tiny, *JOINT, *MIXED, *STILL, "phases.0.batch_size=1", "phases.0.steps_per_epoch=10")
    alone, together = tmp_path / "alone", tmp_path / "together"
    api.train(recipe, alone)
    api.train(recipe, together, processes=2)
    one, two = last_checkpoint(alone), last_checkpoint(together)
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        if name.startswith("model."):
            assert tensor.allclose(two[name], atol=2e-5), name


def processes_of(folder: Path) -> list[int]:
    """The training processes of a run folder, by rank."""
    found = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                command = (place / "cmdline").read_bytes().split(b"\0")
                environment = (place / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"polytask.train.rank" in command and str(folder).encode() in command:
                rank = next(item for item in environment if item.startswith(b"RANK="))
                found[int(rank.removeprefix(b"RANK="))] = int(place.name)
    return [found[rank] for rank in sorted(found)]


def kill_at(update: int, folder: Path, rank: int) -> Callable[[Event], None]:
    """A listener that kills one of the processes."""

    def listen(event: Event) -> None:
        if event["event"] == "update" and event["update"] == update:
            os.kill(processes_of(folder)[rank], signal.SIGKILL)

    return listen


def test_when_a_process_is_killed_all_end_and_resume_gives_the_uninterrupted_run(
    tiny: Path, one_thread: None, tmp_path: Path
) -> None:
    recipe, run, whole = load_recipe(tiny, *FIRST), tmp_path / "run", tmp_path / "whole"
    for rank, update in ((1, 10), (0, 20)):
        listener = kill_at(update, run, rank)
        with pytest.raises(LostProcessError, match=rf"Process {rank} of 2 .* SIGKILL.*--resume"):
            api.train(recipe, run, processes=2, resume=rank == 0, listener=listener)
        assert processes_of(run) == []
    api.train(recipe, run, processes=2, resume=True)
    api.train(recipe, whole, processes=2)
    assert_same_run(run, whole)


def test_a_run_goes_on_with_another_number_of_processes(tiny: Path, one_thread: None, tmp_path: Path) -> None:
    recipe, run = load_recipe(tiny, *FIRST), tmp_path / "run"

    def stop(event: Event) -> None:
        if event["event"] == "update" and event["update"] == 10:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(TrainingStopped, match="--resume"):
        api.train(recipe, run, processes=2, listener=stop)
    api.train(recipe, run, resume=True)
    assert [e["update"] for e in read_events(run) if e["event"] == "evaluate"] == [15, 30]


def test_what_is_wrong_is_said_once_and_nothing_is_written(tiny: Path, tmp_path: Path) -> None:
    recipe = load_recipe(tiny, "phases.0.loss_weights=initial")
    with pytest.raises(UserError, match=r"loss_weights 'initial' .* in one process only"):
        api.train(recipe, tmp_path / "run", processes=2)
    recipe = load_recipe(tiny, "tasks.mood.train=absent.tsv")
    with pytest.raises(UserError, match=r"absent\.tsv"):
        api.train(recipe, tmp_path / "other", processes=2)
    assert not (tmp_path / "other").exists()


def test_torchrun_trains_and_its_first_process_alone_speaks(
    tiny: Path, shared_cache: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    changes = ["--set", "phases.0.epochs=1", "--set", "phases.0.steps_per_epoch=4"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    command = [*torchrun, "-m", "polytask", "train", str(tiny / "tiny.toml"), "--out", str(run), "--json"]
    environment: dict[str, Any] = {**os.environ, "POLYTASK_CACHE": str(shared_cache), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *changes], capture_output=True, env=environment, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((run / "scores.json").read_text())
    assert (run / "report.html").exists()


def test_when_the_starting_process_is_killed_no_other_is_left(
    tiny: Path, shared_cache: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "polytask", "train", str(tiny / "tiny.toml"), "--out", str(run)]
    environment = {**os.environ, "POLYTASK_CACHE": str(shared_cache), "OMP_NUM_THREADS": "1"}
    many = ["--processes", "2", "--set", "phases.0.epochs=9999"]
    with subprocess.Popen([*command, *many], env=environment, stderr=subprocess.DEVNULL) as process:
        wait_for(lambda: (run / "events.jsonl").exists() and len(read_events(run)) > 1)
        process.kill()
    wait_for(lambda: processes_of(run) == [])


def wait_for(holds: Callable[[], bool], seconds: float = 60) -> None:
    pause = threading.Event()
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends
        pause.wait(0.1)
