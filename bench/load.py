"""A load generator for a server on this machine: bounded in requests, connections and time."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, final

HOST = "127.0.0.1"  # nothing else is ever spoken to
MAX_SECONDS = 120.0
MAX_REQUESTS = 500_000
WORDS = [
    "the", "a", "of", "and", "to", "in", "is", "that", "it", "was", "for", "on", "with", "as", "film",
    "story", "actor", "music", "scene", "good", "bad", "great", "poor", "how", "what", "why", "when",
    "can", "best", "way", "learn", "python", "money", "phone", "quickly", "people", "never", "always",
    "really", "very", "much", "more", "less", "idea", "question", "answer", "similar", "different",
    "sentence", "plays", "guitar", "man", "woman", "dog", "running", "street", "small", "large", "old",
    "new"
]  # fmt: skip


@dataclass
class Result:
    """What became of the requests of one load."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)  # of answers with status 200
    statuses: Counter[int] = field(default_factory=Counter)
    lost: int = 0  # sent whole on an open connection, and no whole answer came
    refused: int = 0  # no connection

    @property
    def rate(self) -> float:
        return self.statuses[200] / self.seconds

    def quantile(self, share: float) -> float:
        """Seconds within which that share was answered."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class ClosedError(Exception):
    """The connection ended; `sent` says whether a whole request was on it."""

    def __init__(self, sent: bool) -> None:
        super().__init__("the connection ended")
        self.sent = sent


@final
class Connection:
    """One keep-alive connection."""

    def __init__(self, port: int, token: str | None = None) -> None:
        self._port = port
        self._token = f"Authorization: Bearer {token}\r\n" if token else ""
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, values: Any) -> tuple[int, bytes]:
        """Send a prediction request; its status and body."""
        body = json.dumps(values).encode()
        head = (
            f"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"{self._token}Content-Length: {len(body)}\r\n\r\n"
        )
        return await self.send(head.encode() + body)

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """Send the bytes of a whole request; raises `ClosedError`, or `OSError` if nobody listens."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(HOST, self._port)
        reader, writer = self._streams
        sent = False
        try:
            writer.write(request)
            await writer.drain()
            sent = True
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
            body = await (reader.readexactly(int(length)) if length else reader.read())
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            self.close()
            raise ClosedError(sent) from None
        if b"connection: close" in head:
            self.close()
        return int(head.split(b" ", 2)[1]), body

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def once(port: int, request: bytes | dict[str, Any], token: str | None = None) -> tuple[int, bytes]:
    """One request on a connection of its own: whole bytes, or what to ask a prediction of."""

    async def inside() -> tuple[int, bytes]:
        connection = Connection(port, token)
        sending = connection.send(request) if isinstance(request, bytes) else connection.ask(request)
        try:
            return await sending
        finally:
            connection.close()

    return asyncio.run(inside())


def requests(tasks: dict[str, Any], seed: int) -> Iterator[dict[str, Any]]:
    """Endless mixed requests: one task or all, one text or a few, short and long."""
    source = random.Random(seed)
    names = {size: [name for name, task in tasks.items() if task["texts"] == size] for size in (1, 2)}
    sizes = [size for size, found in names.items() if found]

    def text() -> str:
        return " ".join(source.choices(WORDS, k=min(80, max(2, int(source.lognormvariate(2.3, 0.7))))))

    while True:
        size = source.choice(sizes)
        row: Callable[[], Any] = text if size == 1 else lambda: [text(), text()]
        asked = {"task": source.choice(names[size])} if source.random() < 0.7 else {}
        if source.random() < 0.9:
            yield {"text" if size == 1 else "pair": row(), **asked}
        else:
            yield {"texts" if size == 1 else "pairs": [row() for _ in range(source.randint(2, 4))], **asked}


async def press(
    port: int,
    asked: Sequence[Iterator[Any]],
    seconds: float,
    *,
    rate: float | None = None,
    during: Callable[[], None] | None = None,
) -> Result:
    """Ask on one connection for each of `asked`; at once after each answer, or `rate` times a second in all.

    With a rate, time counts from the moment a request was due, so that a wait for a connection counts.
    `during` is called at half time. A connection that is refused ends its part.
    """
    result = Result()
    seconds = min(seconds, MAX_SECONDS)
    started = time.perf_counter()
    due = (started + number / rate for number in range(MAX_REQUESTS)) if rate else None

    async def one(own: Iterator[Any]) -> None:
        connection = Connection(port)
        while time.perf_counter() < started + seconds and sum(result.statuses.values()) < MAX_REQUESTS:
            moment = next(due) if due is not None else time.perf_counter()
            if moment >= started + seconds:
                break
            await asyncio.sleep(max(0.0, moment - time.perf_counter()))
            try:
                status, _ = await connection.ask(next(own))
            except ClosedError as error:
                result.lost += error.sent
                continue
            except OSError:
                result.refused += 1
                break
            result.statuses[status] += 1
            if status == 200:
                result.latencies.append(time.perf_counter() - moment)
        connection.close()

    if during is not None:
        asyncio.get_running_loop().call_later(seconds / 2, during)
    await asyncio.gather(*(one(own) for own in asked))
    result.seconds = time.perf_counter() - started
    return result
