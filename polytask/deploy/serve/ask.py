"""What a request may ask: its checks, and the JSON schema that says the same."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from polytask.deploy.serve.refused import Refused
from polytask.deploy.serve.settings import Settings
from polytask.errors import one_of
from polytask.tasks import Task

# Tab to carriage return are blanks; the other control characters of ASCII have no place in a text.
CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f]")
PATTERN = r"^[^\u0000-\u0008\u000e-\u001f\u007f]*$"
FORMS = {"text": (1, False), "texts": (1, True), "pair": (2, False), "pairs": (2, True)}  # texts a row, many
MAX_NAME = 100  # characters of a name that a sentence repeats

Texts = tuple[str, ...]


@dataclass(frozen=True)
class Ask:
    """Rows of one or two texts each, and the tasks that each row is asked."""

    rows: Sequence[Texts]
    tasks: tuple[str, ...]


def read_ask(values: Any, tasks: Mapping[str, Task], settings: Settings) -> Ask:
    """Check what a body holds; raises `Refused` with the first thing that is wrong."""
    if not isinstance(values, dict):
        raise _wrong("The body should be a JSON object.")
    for key in values:
        if key not in (*FORMS, "task", "tasks"):
            raise _wrong(f"The key {one_of((*FORMS, 'task', 'tasks'), _short(key))}")
    given = [key for key in FORMS if key in values]
    if len(given) != 1:
        raise _wrong(f"There should be one of text, texts, pair and pairs. Found {len(given)} of them.")
    key = given[0]
    size, many = FORMS[key]
    found = values[key]
    if many:
        if not isinstance(found, list):
            raise _wrong(f"{key} should be a list.")
        if not 1 <= len(found) <= settings.max_texts:
            raise _wrong(f"{key} should have 1 to {settings.max_texts} entries. Found {len(found)}.")
    rows = [
        _row(entry, size, f"{key}.{place}" if many else key, settings)
        for place, entry in enumerate(found if many else [found])
    ]
    return Ask(rows, _tasks(values, size, tasks))


def _row(entry: object, size: int, place: str, settings: Settings) -> Texts:
    if size == 1:
        return (_text(entry, place, settings),)
    if not isinstance(entry, list) or len(entry) != 2:
        raise _wrong(f"{place} should be a list of two texts.")
    return (_text(entry[0], f"{place}.0", settings), _text(entry[1], f"{place}.1", settings))


def _text(value: object, place: str, settings: Settings) -> str:
    if not isinstance(value, str):
        raise _wrong(f"{place} should be a string.")
    if not 1 <= len(value) <= settings.max_characters:
        raise _wrong(
            f"{place} should have 1 to {settings.max_characters:,} characters. Found {len(value):,}."
        )
    if CONTROL.search(value):
        raise _wrong(f"{place} should have no control characters besides blanks.")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise _wrong(f"{place} has half of a surrogate pair at character {error.start}.") from None
    return value


def _tasks(values: Mapping[str, Any], size: int, tasks: Mapping[str, Task]) -> tuple[str, ...]:
    fitting = {name: task for name, task in tasks.items() if task.texts == size}
    form = "a text" if size == 1 else "a pair of texts"
    if "task" in values and "tasks" in values:
        raise _wrong("There should be task or tasks, not both.")
    if "task" in values:
        names, key = [values["task"]], "task"
    elif "tasks" in values:
        names, key = values["tasks"], "tasks"
    elif fitting:
        return tuple(fitting)
    else:
        raise _wrong(f"No task here is asked of {form}.")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise _wrong(
            f"{key} should be the name of a task{'' if key == 'task' else ', or several in a list'}."
        )
    for name in names:
        if name not in tasks:
            raise _wrong(f"{key} {one_of(tasks, _short(name))}")
        if name not in fitting:
            raise _wrong(f"{key}: {name} is not asked of {form}.")
    if len(set(names)) < len(names):
        raise _wrong("tasks should not have the same name twice.")
    return tuple(names)


def ask_schema(tasks: Mapping[str, Task], settings: Settings) -> dict[str, Any]:
    """The JSON schema of what `read_ask` takes."""
    text = {"type": "string", "minLength": 1, "maxLength": settings.max_characters, "pattern": PATTERN}
    rows = {1: text, 2: {"type": "array", "items": text, "minItems": 2, "maxItems": 2}}
    variants = []
    for key, (size, many) in FORMS.items():
        fitting = [name for name, task in tasks.items() if task.texts == size]
        if not fitting:
            continue
        row: dict[str, Any] = rows[size]
        if many:
            row = {"type": "array", "items": row, "minItems": 1, "maxItems": settings.max_texts}
        name = {"type": "string", "enum": fitting}
        several = {"type": "array", "items": name, "minItems": 1, "uniqueItems": True}
        # Two variants, because a request names one task or several, or none to be asked all that fit.
        for chosen in ({"task": name}, {"tasks": several}):
            variants.append(
                {
                    "type": "object",
                    "properties": {key: row, **chosen},
                    "required": [key, *(chosen if "task" in chosen else ())],
                    "additionalProperties": False,
                }
            )
    return {"oneOf": variants}


def _short(name: str) -> str:
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 3] + "..."


def _wrong(sentence: str) -> Refused:
    return Refused(422, sentence)
