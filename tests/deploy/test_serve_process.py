"""The server as a process: signals, connections that are cut, and floods, on the loopback address only."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.hostile import hostile_requests
from bench.load import ClosedError, Connection, once, press, requests
from bench.server import Server
from polytask.deploy.model import load


def until(true: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


def test_sigterm_under_load_loses_nothing_and_ends_with_zero(trained: Path) -> None:
    with Server(trained, OMP_NUM_THREADS="1") as server:
        tasks = server.get("/v1/tasks")["tasks"]
        asked = [requests(tasks, seed) for seed in range(16)]
        found = asyncio.run(
            press(server.port, asked, 2.0, during=lambda: server.process.send_signal(signal.SIGTERM))
        )
        assert server.process.wait(20) == 0
        log = [json.loads(line) for line in server.log().splitlines()]
    assert found.statuses.keys() == {200}
    assert found.statuses[200] > 16
    assert found.lost == 0
    events = [line["event"] for line in log if line["event"] != "request"]
    assert events == ["start", "closing", "end"]
    answered = [line for line in log if line["event"] == "request" and line["path"] == "/v1/predict"]
    assert len(answered) == found.statuses[200]


def test_hostile_requests_get_4xx_and_the_server_goes_on(trained: Path) -> None:
    statuses: Counter[int] = Counter()

    async def flood(port: int) -> None:
        connection = Connection(port)
        for name, request in hostile_requests(1, 250):
            try:
                status, body = await connection.send(request)
            except ClosedError:  # answered before the whole body was read, and gone
                continue
            statuses[status] += 1
            assert 400 <= status < 500, f"{name}: {body[:200]!r}"
            if b"Invalid HTTP request" not in body:
                assert list(json.loads(body)) == ["error"], name
        status, body = await connection.ask({"text": "the film is good"})
        assert status == 200
        connection.close()

    with Server(trained, OMP_NUM_THREADS="1") as server:
        asyncio.run(flood(server.port))
        assert "Traceback" not in server.log()
    assert {400, 404, 405, 413, 415, 422} <= statuses.keys()


def test_sighup_and_an_authenticated_call_take_up_models(trained: Path, tmp_path: Path) -> None:
    model = load(trained)
    folder = tmp_path / "models"
    model.save(folder / "mood", tasks=["mood"])
    with Server(folder, POLYTASK_TOKEN="abc", OMP_NUM_THREADS="1") as server:

        def ask(task: str) -> int:
            return once(server.port, {"text": "the film is good", "task": task}, "abc")[0]

        assert ask("tags") == 422
        model.save(tmp_path / "tags", tasks=["tags"])
        (tmp_path / "tags").rename(folder / "tags")
        server.process.send_signal(signal.SIGHUP)
        until(lambda: ask("tags") == 200)
        shutil.rmtree(folder / "mood")
        call = (
            b"POST /v1/reload HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer abc\r\nContent-Length: 0\r\n\r\n"
        )
        status, body = once(server.port, call)
        assert status == 200
        assert json.loads(body) == {"added": [], "removed": ["mood"], "reloaded": [], "failed": {}}
        assert ask("mood") == 422
        shutil.rmtree(folder / "tags")
        status, body = once(server.port, call)
        assert status == 409
        assert "none in it" in json.loads(body)["error"]
        assert ask("tags") == 200


def test_connections_that_are_cut_or_never_finish_harm_nobody(trained: Path) -> None:
    head = b"POST /v1/predict HTTP/1.1\r\nHost: x\r\n"
    head += b"Content-Length: 20\r\nContent-Type: application/json\r\n\r\n"
    with Server(trained, "--set", "timeout=0.5", OMP_NUM_THREADS="1") as server:
        address = ("127.0.0.1", server.port)
        for part in (b"", b"POST", head, head + b'{"text":', head + b'{"text": "the film"}'):
            socket.create_connection(address).close()
            with socket.create_connection(address) as cut:
                cut.sendall(part)
        with socket.create_connection(address, timeout=10) as slow:
            slow.sendall(head + b'{"te')
            assert b"408" in slow.recv(10_000)
        assert once(server.port, {"text": "the film is good"})[0] == 200
        assert "Traceback" not in server.log()
        assert not [line for line in server.log().splitlines() if json.loads(line)["level"] == "error"]


def test_a_taken_port_a_missing_model_and_a_wrong_limit_end_with_two(trained: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for arguments, said in (
            ((str(trained), "--port", port), "cannot be listened on"),
            (("nowhere", "--port", "0"), "there is no model folder"),
            ((str(trained), "--set", "quee=1"), "did you mean 'queue'"),
        ):
            command = [sys.executable, "-m", "polytask", "serve", *arguments]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert ran.returncode == 2
            assert said in ran.stderr
            assert "Traceback" not in ran.stderr


def test_help_and_the_package_do_not_import_the_web_framework() -> None:
    code = """
import contextlib, io, sys
import polytask
from polytask.cli import main
sys.argv = ["polytask", "serve", "--help"]
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main()
assert not {"fastapi", "uvicorn", "starlette", "prometheus_client", "torch"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn"])
def test_what_is_not_installed_is_named(missing: str, tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules[{missing!r}] = None
sys.argv = ["polytask", "serve", "x"]
from polytask.cli import main
main()
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ}, check=False
    )
    assert ran.returncode == 2
    assert f"serve needs {missing}: pip install 'polytask[serve]'" in ran.stderr
