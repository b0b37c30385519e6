"""What a server allows and how long it waits."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from polytask.errors import UserError, one_of

TOKEN_VARIABLE = "POLYTASK_TOKEN"  # noqa: S105 (the name of a variable)

MAX_TIMEOUT = 3600  # seconds


@dataclass(frozen=True)
class Settings:
    """Limits of requests, of the queue and of a batch; times are in seconds."""

    max_body: int = 1_000_000  # bytes
    max_texts: int = 256  # texts or pairs of one request
    max_characters: int = 20_000  # of one text
    queue: int = 1024  # texts or pairs that may wait
    batch_tokens: int = 1024  # of one model call, padding included; 0: each request by itself
    patience: float = 0.002
    timeout: float = 10.0
    token: str | None = None

    def __post_init__(self) -> None:
        least = {"max_body": 100, "max_texts": 1, "max_characters": 1, "queue": 1}
        for name, value in least.items():
            if getattr(self, name) < value:
                raise UserError(f"{name} should be at least {value}. Found {getattr(self, name)}.")
        if self.queue < self.max_texts:
            raise UserError(
                f"queue should have room for the texts of one request, {self.max_texts}. Found {self.queue}."
            )
        for name in ("batch_tokens", "patience"):
            if not getattr(self, name) >= 0:  # NaN is not either
                raise UserError(f"{name} should not be negative. Found {getattr(self, name)}.")
        if not 0 < self.timeout < MAX_TIMEOUT:
            raise UserError(f"timeout should be between 0 and {MAX_TIMEOUT} s. Found {self.timeout}.")


def read_settings(changes: Sequence[str], token: str | None) -> Settings:
    """The defaults with changes in the form `key=value`."""
    defaults = asdict(Settings())
    kinds = {name: type(value) for name, value in defaults.items() if name != "token"}
    given: dict[str, Any] = {"token": token}
    for change in changes:
        name, _, value = change.partition("=")
        if name not in kinds:
            raise UserError(f"--set {one_of(kinds, name)}")
        try:
            given[name] = kinds[name](value)
        except ValueError:
            noun = "a whole number" if kinds[name] is int else "a number"
            raise UserError(f"--set {name} should be {noun}. Found {value!r}.") from None
    return Settings(**given)


def read_token(file: Path | None) -> str | None:
    """The bearer token of a file or else of the environment; never an argument, which everyone could list."""
    if file is None:
        written, source = os.environ.get(TOKEN_VARIABLE), TOKEN_VARIABLE
    else:
        source = str(file)
        try:
            written = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{file}: cannot be read as a token ({error}).") from None
    if written is None:
        return None
    token = written.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise UserError(f"{source}: a token should be printable ASCII without blanks.")
    return token
