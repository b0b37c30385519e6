"""Mistakes in a recipe in its own words: the key, what was found and what is allowed."""

import re
from collections.abc import Callable, Sequence

from pydantic import ValidationError

from polytask.errors import did_you_mean, one_of

KeysAt = Callable[[tuple[int | str, ...]], Sequence[str]]


def explain(error: ValidationError, keys_at: KeysAt) -> list[str]:
    """One line a mistake; `keys_at` names the keys that are allowed at a place."""
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"]) or "the recipe"
        found, context = problem["input"], problem.get("ctx", {})
        match problem["type"]:
            case "literal_error":
                choices = re.findall(r"'([^']*)'", context["expected"])
                lines.append(f"{key} {one_of(choices, found)}")
            case "extra_forbidden":
                near = did_you_mean(str(problem["loc"][-1]), keys_at(problem["loc"]))
                lines.append(f"{key} is not a key of a recipe{'.' if near != '.' else ''}{near}")
            case "missing":
                lines.append(
                    f"{key} is missing: {'the recipe needs' if key == 'tasks' else 'it has'} no default."
                )
            case "value_error":
                lines.extend(f"{key}.{line}" for line in str(context["error"]).splitlines())
            case _:
                message = problem["msg"].replace("Input should", "should").replace("String should", "should")
                lines.append(f"{key} {message}. Found {_short(found)}.")
    return lines


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
