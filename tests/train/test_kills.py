"""A run killed again and again, while it saves too, ends bit-identical; a full disk leaves it resumable.

The suite kills 5 times; `make bench-kills` kills 50 times.
"""

import multiprocessing
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch
from observed import assert_same_run
from tiny_project import load_recipe

from polytask import api
from polytask.train.checkpoint import load_checkpoint

if os.name != "posix":
    pytest.skip("SIGKILL and small file systems are matters of POSIX systems", allow_module_level=True)

KILLS = int(os.environ.get("POLYTASK_KILLS", "5"))
STEPS = 8  # updates for every kill, in an epoch each
PATIENCE = 120.0  # seconds without a checkpoint before a life is called hung
CHANGES = (
    "checkpoint_seconds=0",  # a checkpoint after every update, so that most moments are in the middle of one
    f"phases.0.epochs={KILLS}",
    f"phases.0.steps_per_epoch={STEPS}",
    "phases.0.average=ema",
    "phases.0.loss_weights=uncertainty",
    'phases.0.sampler={kind="compromise",draws=4}',
    "phases.0.rdrop=1",
    'phases.1.tasks=["mood","tags"]',
    "phases.1.epochs=1",
    "phases.1.steps_per_epoch=3",
    "phases.1.begin=best",
)
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["polytask.api"])


def train(project: Path, run: Path, cache: Path) -> None:
    """One life of the run."""
    os.environ["POLYTASK_CACHE"] = str(cache)
    api.train(load_recipe(project, *CHANGES), run, resume=(run / "recipe.toml").is_file())


def saved(run: Path) -> int:
    """The update of the newest checkpoint; 0 before there is one."""
    return max((int(path.stem[-8:]) for path in run.glob("checkpoints/update-*.json")), default=0)


def begin(project: Path, run: Path, cache: Path) -> BaseProcess:
    process = FORKS.Process(target=train, args=(project, run, cache))
    process.start()
    return process


def kill_in_the_middle(process: BaseProcess, run: Path, chance: random.Random) -> None:
    """Kill a life some updates on, at any moment of the next update and its checkpoint."""
    wanted = saved(run) + chance.randint(0, STEPS // 2)
    given_up = time.monotonic() + PATIENCE
    while saved(run) < wanted and process.is_alive():
        assert time.monotonic() < given_up
        time.sleep(0.001)
    time.sleep(chance.uniform(0, 0.02))
    assert process.is_alive(), "the run ended before it could be killed"
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL


def test_a_run_killed_at_random_moments_ends_bit_identical(
    tiny: Path, one_thread: None, shared_cache: Path, tmp_path: Path
) -> None:
    whole, run, chance = tmp_path / "whole", tmp_path / "run", random.Random(1)
    api.train(load_recipe(tiny, *CHANGES), whole)
    run.mkdir()
    for _ in range(KILLS):
        process = begin(tiny, run, shared_cache)
        kill_in_the_middle(process, run, chance)
    last = begin(tiny, run, shared_cache)
    last.join()
    assert last.exitcode == 0
    assert_same_run(run, whole)
    assert not list(run.rglob("*.tmp"))
    kept = {path.stem for path in run.glob("checkpoints/update-*")}
    assert kept == {path.stem for path in whole.glob("checkpoints/update-*")}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_stops_with_a_message_and_the_checkpoint_before_it_goes_on(
    tiny: Path, one_thread: None, small_disk: Path, tmp_path: Path
) -> None:
    changes = ("checkpoint_seconds=0", "checkpoints=1000", "phases.0.epochs=1", "phases.0.steps_per_epoch=20")
    recipe, run = load_recipe(tiny, *changes), small_disk / "run"
    api.train(recipe, tmp_path / "whole")
    said = rf"^{re.escape(str(run))}: .*No space left on device.*; --resume goes on once that is mended"
    with pytest.raises(OSError, match=said):
        api.train(recipe, run)
    found = load_checkpoint(run / "checkpoints")
    assert found is not None
    _, state, damaged = found
    assert (0 < state["total_updates"] < 20, damaged) == (True, [])
    assert not list(run.rglob("*.tmp"))
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    api.train(recipe, run, resume=True)
    assert_same_run(run, tmp_path / "whole")
    assert torch.get_num_threads() == 1
