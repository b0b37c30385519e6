"""What a server bears, on this machine only: `python -m bench.serve MODEL`.

64 connections with mixed tasks and lengths: the peak with and without batching, 70 % of the peak for a
minute, an overload, an end in the middle of a load, and hostile requests. Each part says whether it holds.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

from bench.hostile import hostile_requests
from bench.load import ClosedError, Connection, Result, press, requests
from bench.machine import describe_machine
from bench.server import Server

RESULTS = Path(__file__).parent / "results" / "serve.json"
CONNECTIONS = 64
MIB = 2**20

Document = dict[str, Any]


def load(server: Server, seconds: float, connections: int = CONNECTIONS, **options: Any) -> Result:
    """Press a server with mixed requests."""
    tasks = server.get("/v1/tasks")["tasks"]
    asked = [requests(tasks, seed) for seed in range(connections)]
    return asyncio.run(press(server.port, asked, seconds, **options))


def speed(model: Path, seconds: float, rounds: int) -> Document:
    """The peak of the server and of the same without batching, in turn; then 70 % of the peak."""
    with Server(model, "--quiet") as server, Server(model, "--quiet", "--set", "batch_tokens=0") as plain:
        for one in (server, plain):
            load(one, 2)
        short = max(2.0, seconds / 6)
        peaks, plains, ratios = [], [], []
        for _ in range(rounds):
            peaks.append(load(server, short).rate)
            plains.append(load(plain, short).rate)
            ratios.append(peaks[-1] / plains[-1])
        peak, ratio = sorted(peaks)[rounds // 2], sorted(ratios)[rounds // 2]
        single = load(server, short, 1)
        steady = load(server, seconds, rate=0.7 * peak)
    found: Document = {
        "requests_per_second": peak,
        "without_batching": sorted(plains)[rounds // 2],
        "ratio": ratio,
        "single_median_ms": 1000 * single.quantile(0.5),
        "steady_requests_per_second": steady.rate,
        "steady_median_ms": 1000 * steady.quantile(0.5),
        "steady_p99_ms": 1000 * steady.quantile(0.99),
        "p99_to_single": steady.quantile(0.99) / single.quantile(0.5),
        "steady_statuses": dict(steady.statuses),
        "lost": steady.lost,
    }
    fine = steady.statuses.keys() == {200} and not steady.lost
    found["holds"] = ratio >= 2 and found["p99_to_single"] <= 5 and fine
    return found


def overload(model: Path, seconds: float) -> Document:
    """More than the queue takes: 503 for the rest, no other error, and an answer again right afterwards."""
    with Server(model, "--quiet", "--set", "queue=64", "--set", "max_texts=64") as server:
        tasks = server.get("/v1/tasks")["tasks"]
        first = next(iter(tasks.values()))["texts"]
        row: Any = "a long sentence about nothing " * 10 if first == 1 else ["a film " * 30, "a song " * 30]
        big = {"texts" if first == 1 else "pairs": [row] * 16}
        asked: list[Iterator[Any]] = [repeat(big) for _ in range(CONNECTIONS)]
        pressed = asyncio.run(press(server.port, asked, seconds))
        after = load(server, 2.0, 1)
    return {
        "statuses": dict(pressed.statuses),
        "lost": pressed.lost,
        "after": dict(after.statuses),
        "holds": pressed.statuses.keys() == {200, 503}
        and not pressed.lost
        and after.statuses.keys() == {200},
    }


def leave(model: Path, seconds: float) -> Document:
    """SIGTERM at half time: every request that was sent is answered, and the process ends by itself."""
    with Server(model, "--quiet") as server:
        found = load(server, seconds, during=lambda: os.kill(server.process.pid, signal.SIGTERM))
        code = server.process.wait(30)
    return {
        "statuses": dict(found.statuses),
        "lost": found.lost,
        "exit_code": code,
        "holds": found.statuses.keys() == {200} and not found.lost and code == 0,
    }


def endure(model: Path, count: int) -> Document:
    """Hostile requests: 4xx each, and no memory kept."""
    statuses: Counter[str] = Counter()
    wrong: list[str] = []

    async def send(port: int, seed: int, many: int) -> None:
        connection = Connection(port)
        for name, request in hostile_requests(seed, many):
            try:
                status, body = await connection.send(request)
            except ClosedError:  # the server may answer and leave before it read a huge body whole
                statuses["closed"] += 1
                continue
            statuses[f"{status // 100}xx"] += 1
            if not 400 <= status < 500:
                wrong.append(f"{name}: {status} {body[:100]!r}")
        connection.close()

    with Server(model, "--quiet") as server:
        blocks = max(2, count // 500)
        resident = []
        for block in range(blocks):
            asyncio.run(send(server.port, block, count // blocks))
            resident.append(server.resident)
        well = load(server, 1.0, 4)
    growth = max(resident[blocks // 2 :]) - max(resident[: blocks // 2])
    return {
        "statuses": dict(statuses),
        "wrong": wrong[:10],
        "memory_mib": [round(value / MIB, 1) for value in resident],
        "growth_mib": round(growth / MIB, 1),
        "after": dict(well.statuses),
        "holds": not wrong and growth < 8 * MIB and well.statuses.keys() == {200},
    }


def main() -> int:
    """Measure, print and keep the results; 1 if something does not hold."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("model", type=Path, help="a model or run folder")
    options.add_argument("--seconds", type=float, default=60.0, help="of the steady load")
    options.add_argument("--rounds", type=int, default=3, help="of the peak with and without batching")
    options.add_argument("--hostile", type=int, default=10_000)
    options.add_argument("--only", choices=["speed", "overload", "leave", "endure"])
    chosen = options.parse_args()
    short = max(2.0, chosen.seconds / 6)
    parts: dict[str, Callable[[], Document]] = {
        "speed": lambda: speed(chosen.model, chosen.seconds, chosen.rounds),
        "overload": lambda: overload(chosen.model, short),
        "leave": lambda: leave(chosen.model, short),
        "endure": lambda: endure(chosen.model, chosen.hostile),
    }
    document: Document = {"machine": describe_machine()}
    for name, measure in parts.items():
        if chosen.only in (None, name):
            started = time.perf_counter()
            document[name] = measure()
            print(
                f"{name} ({time.perf_counter() - started:.0f} s): {json.dumps(document[name], indent=2)}",
                flush=True,
            )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0 if all(part["holds"] for name, part in document.items() if name != "machine") else 1


if __name__ == "__main__":
    sys.exit(main())
