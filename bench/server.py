"""A `polytask serve` process on a free port of this machine, for measurements and tests."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final


@final
class Server:
    """Runs while its `with` block does; its log goes to a file."""

    def __init__(self, model: Path, *options: str, **environment: str) -> None:
        self._log = tempfile.NamedTemporaryFile("w+", suffix=".log")  # noqa: SIM115 (closed on leaving)
        command = [sys.executable, "-m", "polytask", "serve", str(model), "--port", "0", *options]
        self.process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise RuntimeError(self.log())
        self.port = int(line.split("http://127.0.0.1:")[1].split()[0])
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()

    def log(self) -> str:
        """What it logged so far."""
        return Path(self._log.name).read_text(encoding="utf-8")

    def get(self, path: str) -> Any:
        """A JSON document of the server."""
        with urllib.request.urlopen(self.url + path, timeout=30) as reply:
            return json.load(reply)

    @property
    def resident(self) -> int:
        """Bytes of memory that the process holds; needs Linux."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no VmRSS")
