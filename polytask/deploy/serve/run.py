"""A server from its start to its end: the socket, signals, and leaving without losing a request."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from polytask.deploy.serve.app import make_app
from polytask.deploy.serve.catalogue import Catalogue
from polytask.deploy.serve.log import say, set_up_logs
from polytask.deploy.serve.refused import Refused
from polytask.deploy.serve.service import Service
from polytask.deploy.serve.settings import Settings

DRAIN = 1.0  # seconds that idle connections may still send a request after the end was announced
KEEP_ALIVE = 30  # seconds
BACKLOG = 2048


def serve(
    path: Path,
    settings: Settings,
    listener: socket.socket,
    *,
    quiet: bool = False,
    started: Callable[[str, Catalogue], None] = lambda url, catalogue: None,
) -> None:
    """Serve a model, a run or a folder of models until SIGINT or SIGTERM; SIGHUP looks at it again."""
    set_up_logs(quiet)
    catalogue = Catalogue.open(path)
    address, number = listener.getsockname()[:2]
    url = f"http://{f'[{address}]' if ':' in address else address}:{number}"
    say("start", url=url, pid=os.getpid(), models=list(catalogue.models), tasks=list(catalogue.tasks))
    if settings.token is None and address not in ("127.0.0.1", "::1"):
        say("anyone who reaches this address may ask: there is no token", url=url)
    asyncio.run(_run(catalogue, settings, listener, lambda: started(url, catalogue)))


async def _run(
    catalogue: Catalogue, settings: Settings, listener: socket.socket, started: Callable[[], None]
) -> None:
    service = Service(catalogue, settings)
    config = uvicorn.Config(
        make_app(service),
        http="h11",  # which bounds what a client may send as headers
        lifespan="on",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=int(settings.timeout) + 5,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    if server.started:
        _handle_signals(server, service)
        started()
    await serving
    say("end")


def _handle_signals(server: uvicorn.Server, service: Service) -> None:
    """Ours in place of uvicorn's, which would cut off connections that a request is on its way through."""
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    def leave() -> None:
        if service.closing:  # asked a second time
            server.force_exit = True
            server.should_exit = True
            return
        service.closing = True
        tasks.add(loop.create_task(_drain(server)))

    def reload() -> None:
        task = loop.create_task(_reload(service))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, leave)
    loop.add_signal_handler(signal.SIGHUP, reload)


async def _drain(server: uvicorn.Server) -> None:
    """Take no new connection; end those there are after the answer to what they ask within a moment."""
    say("closing")
    for listening in server.servers:
        listening.close()
    until = asyncio.get_running_loop().time() + DRAIN
    while server.server_state.connections and asyncio.get_running_loop().time() < until:
        await asyncio.sleep(0.02)
    server.should_exit = True


async def _reload(service: Service) -> None:
    try:
        await service.reload()
    except Refused:  # was logged
        pass
