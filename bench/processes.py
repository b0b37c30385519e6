"""Several processes against one: speed, twenty kills, and two hosts: `python -m bench.processes`.

Speed is measured between the first and the last update event of interleaved runs on the CS224N rows, each
process on one thread. The kills end one of two processes at random moments, and the resumed run has to reach
the weights of an uninterrupted one. The hosts are two network namespaces with a cable between them (as root).
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.quora import SHARED_DATA
from polytask import api
from polytask.data.known import FOLDER_VARIABLE
from polytask.files import sha256_of
from polytask.recipe import Recipe
from polytask.train.parallel import LostProcessError

RESULTS = Path(__file__).parent / "results" / "processes.json"
RECIPE = Path(__file__).parent.parent / "recipes" / "joint.toml"
SAMPLERS = {"one draw of 32 rows": "annealed", "one draw of each of three tasks": "joint"}
HOSTS = ("polytask-a", "polytask-b")
Event = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for, print it and write `results`."""
    parser = argparse.ArgumentParser(prog="python -m bench.processes", description=__doc__)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--only", choices=["speed", "kills", "hosts"])
    options = parser.parse_args(arguments)
    os.environ.setdefault(FOLDER_VARIABLE, str(SHARED_DATA))
    parts: dict[str, Callable[[Path], Any]] = {
        "speed": lambda folder: measure_speed(folder, options.updates, options.rounds),
        "kills": lambda folder: kill_and_resume(folder, options.kills),
        "hosts": train_on_two_hosts,
    }
    document = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, part in parts.items():
        if options.only in (None, name):
            with TemporaryDirectory(prefix="polytask-bench-") as folder:
                document[name] = part(Path(folder))
            print(json.dumps({name: document[name]}, indent=2))
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


def recipe_with(*changes: str) -> Recipe:
    """The joint recipe on one thread, for one epoch without dev rows' worth of evaluation in it."""
    return Recipe.load(RECIPE, ["threads=1", "phases.0.epochs=1", *changes])


def measure_speed(folder: Path, updates: int, rounds: int) -> dict[str, Any]:
    """Real tokens a second of one and of two processes, taking turns."""
    found: dict[str, Any] = {}
    for label, sampler in SAMPLERS.items():
        recipe = recipe_with(f"phases.0.sampler={sampler}", f"phases.0.steps_per_epoch={updates}")
        speeds: dict[int, list[float]] = {1: [], 2: []}
        for number in range(rounds):
            for processes in (1, 2) if number % 2 == 0 else (2, 1):
                run = folder / f"{sampler}-{number}-{processes}"
                speeds[processes].append(_speed(recipe, run, processes))
        medians = {count: statistics.median(values) for count, values in speeds.items()}
        found[label] = {"tokens_per_second": speeds, "ratio": round(medians[2] / medians[1], 3)}
    return found


def _speed(recipe: Recipe, run: Path, processes: int) -> float:
    events: list[Event] = []
    api.train(recipe, run, processes=processes, listener=events.append)
    first, *_, last = (event for event in events if event["event"] == "update")
    return round((last["tokens"] - first["tokens"]) / (last["seconds"] - first["seconds"]), 1)


def kill_and_resume(folder: Path, kills: int) -> dict[str, Any]:
    """End one of two processes again and again; how long the other took to end, and whether it mattered."""
    recipe = recipe_with("phases.0.steps_per_epoch=60", "phases.0.batch_size=4", "checkpoint_seconds=0.5")
    chance, seconds, run = random.Random(1), [], folder / "killed"
    for number in range(kills):
        wait = chance.uniform(0, 3)
        try:
            api.train(recipe, run, processes=2, resume=number > 0, listener=_Killer(run, chance, wait))
            break  # it got through
        except LostProcessError:
            seconds.append(round(time.monotonic() - _Killer.killed_at, 2))
    api.train(recipe, run, processes=2, resume=True)
    api.train(recipe, folder / "whole", processes=2)
    weights = [sha256_of(each / "model" / "model.safetensors") for each in (run, folder / "whole")]
    return {"kills": len(seconds), "longest_end_seconds": max(seconds), "same": weights[0] == weights[1]}


class _Killer:
    """Kills a process so long after the first event that tells of a checkpoint or an update."""

    killed_at = 0.0

    def __init__(self, run: Path, chance: random.Random, wait: float) -> None:
        self._run, self._rank = run, chance.randrange(2)
        self._after, self._first = wait, 0.0

    def __call__(self, event: Event) -> None:
        if event["event"] not in ("update", "checkpoint", "phase"):
            return
        self._first = self._first or time.monotonic()
        if time.monotonic() - self._first >= self._after:
            _Killer.killed_at = time.monotonic()
            os.kill(processes_of(self._run)[self._rank], signal.SIGKILL)


def processes_of(folder: Path) -> dict[int, int]:
    """The process ids of a run's ranks."""
    found = {}
    for place in Path("/proc").iterdir():
        try:
            command = (place / "cmdline").read_bytes() if place.name.isdigit() else b""
            if b"polytask.train.rank" in command and str(folder).encode() in command:
                variables = (place / "environ").read_bytes().split(b"\0")
                rank = next(item for item in variables if item.startswith(b"RANK="))
                found[int(rank.removeprefix(b"RANK="))] = int(place.name)
        except OSError:
            continue
    return found


def train_on_two_hosts(folder: Path) -> dict[str, Any]:
    """One process on each of two hosts that see each other through a cable only."""
    _cable()
    try:
        run, started = folder / "run", time.monotonic()
        hosts = [_host(rank, run) for rank in range(2)]
        codes = [host.wait(timeout=900) for host in hosts]
    finally:
        for name in HOSTS:
            subprocess.run(["ip", "netns", "delete", name], check=False)
    scores = json.loads((run / "scores.json").read_text()) if codes == [0, 0] else None
    return {"exit_codes": codes, "seconds": round(time.monotonic() - started, 1), "scores": scores}


def _cable() -> None:
    one, other = HOSTS
    commands = [
        *(f"netns add {name}" for name in HOSTS),
        f"link add eth-a netns {one} type veth peer name eth-b netns {other}",
        f"-n {one} address add 10.77.0.1/24 dev eth-a",
        f"-n {other} address add 10.77.0.2/24 dev eth-b",
        *(f"-n {name} link set {link} up" for name in HOSTS for link in ("lo", f"eth-{name[-1]}")),
    ]
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True)


def _host(rank: int, run: Path) -> "subprocess.Popen[bytes]":
    torchrun = ["torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", f"--node-rank={rank}"]
    address = ["--master-addr=10.77.0.1", "--master-port=29571"]
    training = ["polytask", "train", str(RECIPE), "--out", str(run), "--set", "phases.0.epochs=1"]
    command = [sys.executable, "-m", *torchrun, *address, "-m", *training]
    changes = ["--set", "phases.0.steps_per_epoch=10", "--set", "threads=1"]
    network = {"GLOO_SOCKET_IFNAME": f"eth-{HOSTS[rank][-1]}"}
    prefix = ["ip", "netns", "exec", HOSTS[rank]]
    return subprocess.Popen([*prefix, *command, *changes], env=os.environ | network)


if __name__ == "__main__":
    sys.exit(main())
