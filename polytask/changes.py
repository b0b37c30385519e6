"""Changes to a recipe as they are given on a command line: `phases.0.lr=1e-4`."""

import tomllib
from collections.abc import Iterable
from typing import Any

from polytask.errors import RecipeError


def apply_changes(values: dict[str, Any], changes: Iterable[str]) -> dict[str, Any]:
    """Lay `phases.0.lr=1e-4` style changes over a recipe's nested dicts and return them."""
    for change in changes:
        path, sign, text = change.partition("=")
        if not sign or not path.strip():
            raise RecipeError(f"--set should look like phases.0.lr=1e-4. Found {change!r}.")
        try:
            parsed = tomllib.loads(f"value = {text}")
        except tomllib.TOMLDecodeError:
            parsed = {}
        # A bare word needs no quotes on a command line; a line break must not smuggle in a second key.
        value = parsed["value"] if list(parsed) == ["value"] else text.strip()
        values = _with_value(values, path.strip().split("."), value, change)
    return values


def _with_value(place: Any, keys: list[str], value: object, change: str) -> Any:
    """A copy of `place` in which the entry at `keys` is `value`."""
    if not keys:
        return value
    key, rest = keys[0], keys[1:]
    if isinstance(place, list):
        if not key.isdigit() or int(key) > len(place):
            raise RecipeError(f"--set {change}: {key!r} should be a number from 0 to {len(place)}.")
        items = [*place, {}] if int(key) == len(place) else list(place)
        items[int(key)] = _with_value(items[int(key)], rest, value, change)
        return items
    if place is None and key.isdigit():
        return _with_value([], keys, value, change)
    if place is None or isinstance(place, dict):
        table = dict(place or {})
        return {**table, key: _with_value(table.get(key), rest, value, change)}
    raise RecipeError(f"--set {change}: {key!r} lies inside {place!r}, which is not a table.")
