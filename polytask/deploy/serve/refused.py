"""How a request is turned down: a status and one sentence, always as JSON."""

import json
from collections.abc import Mapping
from typing import Any, final

from starlette.responses import Response


@final
class Refused(Exception):
    """A request that gets no answer, and why."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence
        self.headers = dict(headers or {})


def json_reply(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON document; an answer that is no number would be a mistake of ours, and raises."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode("utf-8"), status, dict(headers or {}), "application/json")


def error_reply(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    """The form of every error."""
    return json_reply({"error": sentence}, status, headers)
