"""Mistakes in a recipe in its own words: the key, what was found and what is allowed."""

import re
from collections.abc import Callable, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from polytask.errors import did_you_mean, one_of

KeysAt = Callable[[tuple[int | str, ...]], Sequence[str]]


def explain(error: ValidationError, keys_at: KeysAt) -> list[str]:
    """One line a mistake; `keys_at` names the keys that are allowed at a place."""
    lines = []
    problems = error.errors()
    for problem in problems:
        key = ".".join(str(part) for part in problem["loc"]) or "the recipe"
        found, context = problem["input"], problem.get("ctx", {})
        match problem["type"]:
            case "too_short" | "too_long" if _is_echo(problem["loc"], problems):
                continue
            case "literal_error":
                choices = re.findall(r"'([^']*)'", context["expected"])
                lines.append(f"{key} {one_of(choices, found)}")
            case "extra_forbidden":
                near = did_you_mean(str(problem["loc"][-1]), keys_at(problem["loc"]))
                lines.append(f"{key} is not a key of a recipe{'.' if near != '.' else ''}{near}")
            case "missing":
                lines.append(f"{key} is missing, and it has no default.")
            case "value_error":
                lines.extend(f"{key}.{line}" for line in str(context["error"]).splitlines())
            case _:
                lines.append(f"{key} {_in_toml_words(problem['msg'])}. Found {_short(found)}.")
    return lines


def _is_echo(place: tuple[int | str, ...], problems: Sequence[ErrorDetails]) -> bool:
    """Whether a list is only called too short since a wrong entry, which has its own line, was left out."""
    return any(len(other["loc"]) > len(place) and other["loc"][: len(place)] == place for other in problems)


def _in_toml_words(message: str) -> str:
    """A message of pydantic's in the words of a recipe, which knows tables and lists."""
    message = re.sub(r"^(Input|String|Tuple|Dictionary) should", "should", message)
    message = re.sub(r" after validation, not \d+$", "", message)
    message = re.sub(r"a valid dictionary( or instance of \w+)?", "a table", message)
    return message.replace("a valid tuple", "a list").replace("a valid string", "a string")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
