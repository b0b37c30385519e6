"""Requests that a server should turn down, one worse than the other."""

import json
import random
from collections.abc import Callable
from typing import Any

GOOD = b'{"text": "a good film"}'


def hostile_requests(seed: int, count: int, max_body: int = 1_000_000) -> list[tuple[str, bytes]]:
    """Whole HTTP requests and what is wrong with them; each should be answered 4xx."""
    source = random.Random(seed)
    kinds: list[tuple[str, Callable[[random.Random], bytes]]] = [
        ("malformed", lambda r: _post(GOOD[: r.randint(0, 20)] + r.choice([b"", b"}", b"]", b","]))),
        ("noise", lambda r: _post(r.randbytes(r.randint(1, 300)))),
        ("not UTF-8", lambda r: _post(b'{"text": "' + r.choice([b"\xff", b"\xc3", b"\xed\xa0\x80"]) + b'"}')),
        ("deep", lambda r: _post(r.choice([b"[", b'{"text":']) * r.choice([100, 5_000, 100_000]))),
        ("deep and closed", lambda r: _post(b"[" * 20_000 + b"]" * 20_000)),
        ("raw control character", lambda r: _post(b'{"text": "a' + bytes([r.randrange(32)]) + b'b"}')),
        ("control character", lambda r: _post(b'{"text": "a\\u00%02xb"}' % r.choice(CONTROLS))),
        ("half a surrogate pair", lambda r: _post(b'{"text": "\\ud8%02x"}' % r.randrange(256))),
        ("not a number", lambda r: _post(b'{"text": %s}' % r.choice(NUMBERS))),
        ("many digits", lambda r: _post(b'{"text": ' + b"9" * r.choice([200, 5_000]) + b"}")),
        ("the same key twice", lambda r: _post(b'{"text": "a", "text": "b"}')),
        ("wrong type", lambda r: _post(json.dumps({r.choice(KEYS): r.choice(VALUES)}).encode())),
        (
            "unknown key",
            lambda r: _post(json.dumps({"text": "a", r.choice("xyz") * r.randint(1, 99): 1}).encode()),
        ),
        (
            "unknown task",
            lambda r: _post(json.dumps({"text": "a", "task": "x" * r.randint(1, 5_000)}).encode()),
        ),
        ("two forms", lambda r: _post(b'{"text": "a", "texts": ["b"]}')),
        ("long text", lambda r: _post(json.dumps({"text": "x" * 30_000}).encode())),
        ("many texts", lambda r: _post(json.dumps({"texts": ["x"] * r.randint(300, 3_000)}).encode())),
        ("other type", lambda r: _post(GOOD, kind=r.choice(TYPES))),
        ("compressed", lambda r: _post(GOOD, b"Content-Encoding: gzip\r\n")),
        ("announced as huge", lambda r: _head(max_body * 1000)),
        ("huge", lambda r: _post(b'{"text": "' + b"x" * (max_body + r.randint(1, 1000)) + b'"}')),
        ("chunks without end", lambda r: _chunks(r, max_body)),
        ("other path", lambda r: _get(b"/" + bytes(r.choices(b"abc%./", k=r.randint(1, 200))))),
        ("other method", lambda r: _get(b"/v1/predict", r.choice([b"GET", b"PUT", b"DELETE", b"PATCH"]))),
        ("no HTTP", lambda r: b"\x16\x03\x01" + r.randbytes(60) + b"\r\n\r\n"),
    ]
    light = [kind for kind in kinds if kind[0] not in ("huge", "chunks without end")]
    chosen = [source.choice(kinds if number % 20 == 0 else light) for number in range(count)]
    return [(name, make(source)) for name, make in chosen]


NUMBERS = (b"NaN", b"Infinity", b"-Infinity", b"1e999")
CONTROLS = (0, 1, 7, 8, 0x1B, 0x1F, 0x7F)
TYPES = (b"text/plain", b"", b"application/xml", b"\xff")
KEYS = ("text", "texts", "pair", "pairs", "task", "tasks")
VALUES: tuple[Any, ...] = (
    None,
    3,
    True,
    -1.5,
    {},
    {"a": 1},
    [],
    [[]],
    [None],
    [[1, 2]],
    ["a", 1],
    [["a"]],
    [["a", "b", "c"]],
)


def _post(body: bytes, extra: bytes = b"", kind: bytes = b"application/json") -> bytes:
    head = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + kind + b"\r\n" + extra
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def _head(length: int) -> bytes:
    return _post(b"").replace(b"Content-Length: 0", b"Content-Length: %d" % length)


def _chunks(source: random.Random, most: int) -> bytes:
    head = _post(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    size = source.randint(1_000, 50_000)
    chunk = b"%x\r\n" % size + b" " * size + b"\r\n"
    return head + chunk * (most // size + 2)


def _get(path: bytes, method: bytes = b"GET") -> bytes:
    return method + b" " + path + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
