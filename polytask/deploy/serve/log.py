"""Logs as JSON lines: what happened and how long it took, never a text that someone sent."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, final

NAME = "polytask.serve"


@final
class JsonLines(logging.Formatter):
    """A record as one line; what is in `extra={"fields": ...}` stands beside the event."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": moment,
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            error = record.exc_info[1]
            line["error"] = type(error).__name__
            # Where it was raised and not what it says: a message may repeat a text.
            line["at"] = _places(error)
        return json.dumps(line, default=str)


def _places(error: BaseException | None) -> list[str]:
    found = []
    step = error.__traceback__ if error is not None else None
    while step is not None:
        code = step.tb_frame.f_code
        found.append(f"{code.co_filename}:{step.tb_lineno} {code.co_name}")
        step = step.tb_next
    return found[-8:]


def set_up_logs(quiet: bool) -> None:
    """Send this server's lines and uvicorn's complaints to standard error; `quiet`: no single requests."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in (NAME, "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
    logging.getLogger(NAME).setLevel(logging.INFO)
    logging.getLogger(f"{NAME}.requests").setLevel(logging.WARNING if quiet else logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    logging.getLogger("uvicorn.access").handlers = []
    logging.getLogger("uvicorn.access").propagate = False


def say(event: str, **fields: object) -> None:
    """Log something that happened to the server."""
    logging.getLogger(NAME).info(event, extra={"fields": fields})
