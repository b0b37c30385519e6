"""Values of a config.json that nobody has checked yet: each read with its bounds, or refused by its key."""

from collections.abc import Mapping
from reprlib import repr as short
from typing import Any

from polytask.errors import ModelError


def whole_number(
    values: Mapping[str, Any],
    key: str,
    most: int,
    source: object,
    *,
    least: int = 1,
    default: int | None = None,
) -> int:
    """The number under a key, or the default where there is none."""
    found = values.get(key)
    if found is None:
        found = default
    if isinstance(found, int) and not isinstance(found, bool) and least <= found <= most:
        return found
    shown = "it is missing" if key not in values else f"Found {short(values[key])}"
    raise ModelError(f"{source}: {key} should be a whole number from {least} to {most}. {shown}.")


def fraction(values: Mapping[str, Any], key: str, source: object, default: float) -> float:
    """A number between 0 and 1, both excluded."""
    found = values.get(key, default)
    if isinstance(found, float) and 0 < found < 1:
        return found
    raise ModelError(f"{source}: {key} should be a number between 0 and 1. Found {short(found)}.")


def base(values: Mapping[str, Any], key: str, source: object, default: float) -> float:
    """The base of rotary positions: a number above 1."""
    found = values.get(key, default)
    if isinstance(found, (int, float)) and not isinstance(found, bool) and 1 < found <= 1e12:
        return float(found)
    raise ModelError(f"{source}: {key} should be a number above 1, at most 1e12. Found {short(found)}.")
