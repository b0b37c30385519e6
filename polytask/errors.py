"""What a user is told when what they gave is wrong."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """Something the user gave is wrong: a recipe key, a file, a model; ends a command with exit code 2."""


class RecipeError(UserError):
    """One or more keys of a recipe are wrong; the message has one line a key."""


class DataError(UserError):
    """A data file is missing, unreadable or holds bad rows; the message names the file and line."""


class ModelError(UserError):
    """An encoder or model folder is missing, damaged or of an architecture that cannot be loaded."""


def one_of(allowed: Iterable[str], found: object) -> str:
    """`should be one of a, b. Found 'x'; did you mean 'a'?`"""
    choices = [str(choice) for choice in allowed]
    return f"should be one of {', '.join(choices)}. Found {found!r}{did_you_mean(str(found), choices, '; ')}"


def did_you_mean(found: str, allowed: Iterable[str], lead: str = " ") -> str:
    """The end of a message that suggests the nearest allowed word, or a full stop where none is near."""
    near = get_close_matches(found, list(allowed), n=1, cutoff=0.6)
    hint = "did you mean" if lead.startswith(";") else "Did you mean"
    return f"{lead}{hint} {near[0]!r}?" if near else "."
