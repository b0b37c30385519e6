"""The body of a request to plain values: bounded while it is read, and strict JSON."""

import asyncio
import json
from typing import Any

from starlette.requests import ClientDisconnect, Request

from polytask.deploy.serve.refused import Refused
from polytask.deploy.serve.settings import Settings

CLOSE = {"Connection": "close"}  # the rest of a body is not read


async def read_json(request: Request, settings: Settings) -> Any:
    """The values of a JSON body; raises `Refused` for anything else."""
    kind = request.headers.get("content-type", "").lower()
    charset = kind.partition("charset=")[2].strip("\"' ")
    if kind.partition(";")[0].strip() != "application/json" or charset not in ("", "utf-8", "utf8"):
        raise Refused(415, "The Content-Type should be application/json, in UTF-8.", CLOSE)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "The body should not be compressed.", CLOSE)
    try:
        async with asyncio.timeout(settings.timeout):
            body = await _read(request, settings.max_body)
    except TimeoutError:
        raise Refused(408, f"The body did not arrive within {settings.timeout:g} s.", CLOSE) from None
    except ClientDisconnect:
        raise Refused(400, "The connection ended before the body did.", CLOSE) from None
    return parse_json(body)


async def _read(request: Request, most: int) -> bytes:
    too_large = Refused(413, f"The body should have at most {most:,} bytes.", CLOSE)
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and (len(announced) > 18 or int(announced) > most):
        raise too_large
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise too_large
    return bytes(body)


def parse_json(body: bytes) -> Any:
    """Strict JSON: UTF-8, no key twice, no NaN, nothing nested for its own sake."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(400, f"The body should be UTF-8; byte {error.start} is not.") from None
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer)
    except json.JSONDecodeError as error:
        raise Refused(400, f"The body should be JSON: {error.msg} at character {error.pos}.") from None
    except RecursionError:
        raise Refused(400, "The body is nested too deeply.") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise Refused(400, "The body should not have the same key twice.")
    return values


def _constant(name: str) -> Any:
    raise Refused(400, f"The body should be JSON, which has no {name}.")


def _integer(digits: str) -> int:
    if len(digits) > 100:  # Python itself would refuse thousands of digits with a message of its own
        raise Refused(400, "The body has a number with too many digits.")
    return int(digits)
