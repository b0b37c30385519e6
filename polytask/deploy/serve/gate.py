"""What every request passes: the token, an id, headers, one log line, and JSON even for a mistake of ours."""

import hmac
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from typing import final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from polytask.deploy.serve.metrics import Metrics
from polytask.deploy.serve.refused import error_reply

OPEN = ("/", "/docs", "/openapi.json", "/healthz", "/readyz")  # need no token
GUARDED = ("/v1/predict", "/v1/tasks", "/v1/reload", "/metrics")
MAX_ID = 64
MISTAKE = "Something went wrong here; the log has it under the request's id."
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)

log = logging.getLogger("polytask.serve.requests")


@final
class Gate:
    """Wraps the application; `closing` says whether connections should end after their answer."""

    def __init__(
        self, app: ASGIApp, token: str | None, metrics: Metrics, closing: Callable[[], bool]
    ) -> None:
        self._app = app
        self._token = token.encode() if token is not None else None
        self._metrics = metrics
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        headers = dict(scope["headers"])
        request_id = _request_id(headers)
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [(b"x-request-id", request_id.encode()), *HEADERS]
                if self._closing():
                    own.append((b"connection", b"close"))
                message["headers"] = [*message.get("headers", ()), *own]
            await send(message)

        path = scope["path"] if scope["path"] in (*OPEN, *GUARDED) else "other"
        try:
            if path in OPEN or self._knows(headers):
                await self._app(scope, receive, send_with_headers)
            else:
                sentence = "This needs the server's token, as `Authorization: Bearer TOKEN`."
                challenge = {"WWW-Authenticate": "Bearer", "Connection": "close"}
                await error_reply(401, sentence, challenge)(scope, receive, send_with_headers)
        except Exception:
            log.exception("a mistake in polytask", extra={"fields": {"id": request_id, "path": path}})
            if status == 0:
                await error_reply(500, MISTAKE)(scope, receive, send_with_headers)
        finally:
            seconds = time.perf_counter() - started
            self._metrics.request(path, status, seconds)
            asked = scope.get("state", {}).get("asked", {})
            fields = {"id": request_id, "method": scope["method"][:10], "path": path, "status": status}
            log.info("request", extra={"fields": {**fields, "ms": round(1000 * seconds, 2), **asked}})

    def _knows(self, headers: Mapping[bytes, bytes]) -> bool:
        if self._token is None:
            return True
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        same = hmac.compare_digest(given.strip(), self._token)
        return same and scheme.lower() == b"bearer"


def _request_id(headers: Mapping[bytes, bytes]) -> str:
    """The client's own id if it is a plain one."""
    given = headers.get(b"x-request-id", b"").decode("latin-1")
    plain = given.isascii() and given.replace("-", "").isalnum() and len(given) <= MAX_ID
    return given if plain else uuid.uuid4().hex
