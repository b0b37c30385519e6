"""Several processes of one training on this machine: starts, hears and ends them."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any, final

from polytask.errors import UserError
from polytask.recipe import Recipe
from polytask.train.events import Listener
from polytask.train.parallel import LostProcessError
from polytask.train.state import TrainingError, TrainingStopped

GRACE = 10.0  # seconds that the others have to end by themselves once one has failed
FAILURES: dict[str, type[BaseException]] = {
    "user": UserError,
    "stopped": TrainingStopped,
    "error": TrainingError,
    "lost": LostProcessError,
}


@final
class Processes:
    """The processes of a training, from their start to the end of the last."""

    def __init__(self, arguments: Sequence[str], count: int, threads: int) -> None:
        self._messages: SimpleQueue[tuple[int, dict[str, Any]]] = SimpleQueue()
        self._failed: dict[int, tuple[str, str]] = {}
        self.result: dict[str, Any] = {}
        command = [sys.executable, "-m", "polytask.train.rank", *arguments]
        shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
        shared |= {"OMP_NUM_THREADS": str(threads), "LOCAL_WORLD_SIZE": str(count)}
        self._running = [
            subprocess.Popen(  # noqa: S603 - our own module, and no shell
                command,
                env=os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdin=subprocess.PIPE,  # its end tells a process that this one is gone
                stdout=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C reaches them through this process alone
            )
            for rank in range(count)
        ]
        self._readers = [
            threading.Thread(target=self._read, args=(rank,), daemon=True) for rank in range(count)
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, rank: int) -> None:
        pipe = self._running[rank].stdout
        assert pipe is not None
        for line in pipe:
            self._messages.put((rank, json.loads(line)))

    def follow(self, listener: Listener) -> None:
        """Pass the first process's events on until all have ended; raises what ended them."""
        ends_by = float("inf")
        while any(process.poll() is None for process in self._running):
            try:
                self._hear(listener)
            except KeyboardInterrupt:
                if ends_by < float("inf"):
                    raise
                self._signal(signal.SIGINT)
            if self._lost() and ends_by == float("inf"):
                ends_by = time.monotonic() + GRACE
            if time.monotonic() > ends_by:
                self._signal(signal.SIGKILL)
        for reader in self._readers:
            reader.join()
        while not self._messages.empty():
            self._hear(listener)
        self._raise_failure()

    def _hear(self, listener: Listener) -> None:
        try:
            rank, message = self._messages.get(timeout=0.2)
        except Empty:
            return
        if "failed" in message:
            self._failed[rank] = (message["failed"], message["message"])
        elif "result" in message:
            self.result = message["result"] if rank == 0 else self.result
        else:
            listener(message)

    def _lost(self) -> list[int]:
        """The processes that failed, but for a stop that was asked for."""
        return [
            rank
            for rank, process in enumerate(self._running)
            if process.poll() not in (None, 0) and self._failed.get(rank, ("", ""))[0] != "stopped"
        ]

    def _raise_failure(self) -> None:
        """Raise the first cause: a mistake of the user's, a process that was killed, or another error."""
        silent = [rank for rank in self._lost() if rank not in self._failed]
        for kind in FAILURES:
            for found, message in self._failed.values():
                if found == kind and not (kind == "lost" and silent):
                    raise FAILURES[kind](message)
        if silent:
            code = self._running[silent[0]].returncode
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
            raise LostProcessError(
                f"Process {silent[0]} of {len(self._running)} {how}, and the others were stopped; "
                "--resume goes on from the last checkpoint."
            )

    def _signal(self, number: signal.Signals) -> None:
        for process in self._running:
            if process.poll() is None:
                process.send_signal(number)

    def end(self) -> None:
        """Leave no process behind."""
        self._signal(signal.SIGKILL)
        for process in self._running:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def launch(
    recipe: Recipe, folder: Path, processes: int, *, resume: bool, listener: Listener
) -> dict[str, Any]:
    """Train a recipe in so many processes of this machine; returns what `scores.json` says."""
    threads = recipe.threads or max(1, len(os.sched_getaffinity(0)) // processes)
    with TemporaryDirectory(prefix="polytask-") as work:
        path = Path(work) / "recipe.toml"
        path.write_text(recipe.to_toml(), encoding="utf-8")
        arguments = [str(path), str(recipe.base), str(folder.absolute()), str(int(resume))]
        started = Processes(arguments, processes, threads)
        try:
            started.follow(listener)
        finally:
            started.end()
    return started.result


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
