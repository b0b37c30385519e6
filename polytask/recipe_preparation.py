"""What a task of a recipe does to its training rows before they are tokenised."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from polytask.choices import Choice, Table, Words, as_table, as_word_or_table, refuse_others

Balance = Literal["none", "repeat", "eda"]


def _as_strings(value: object) -> object:
    """Labels may be written as numbers; a list is read as names, a table as `found in the file` -> name."""
    if isinstance(value, list):
        return {str(item): str(item) for item in value}
    if isinstance(value, dict):
        return {str(found): str(name) for found, name in value.items()}
    return value


Labels = Annotated[dict[str, str] | None, BeforeValidator(_as_strings)]


class JoinRecipe(Table):
    """One more training file of a task; what is not said is as the set itself or the task has it."""

    file: str = Field(min_length=1)
    text: Words | None = Field(default=None, min_length=1, max_length=2)
    label: Words | None = Field(default=None, min_length=1)
    labels: Labels = None  # what stands in this file -> a label of the task
    id: str | None = None
    max_length: int | None = Field(default=None, ge=4, le=8192)  # tokens of a row, specials included


EDA_OPTIONS = ("copies", "synonyms", "insert", "swap", "delete")
Rate = Annotated[float | None, Field(ge=0, le=1)]


class AugmentRecipe(Choice):
    """Copies of the training rows with a few words changed; a rate is the share of the words."""

    kind: Literal["none", "eda"] = "none"
    copies: int | None = Field(default=None, ge=0, le=100)
    synonyms: Rate = None
    insert: Rate = None
    swap: Rate = None
    delete: Rate = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = self.model_dump(exclude_none=True, exclude={"kind"})
        refuse_others(self.kind, given, EDA_OPTIONS if self.kind == "eda" else ())
        if self.kind == "eda" and not any(self.rates().values()):
            raise ValueError("synonyms, insert, swap and delete should not all be 0: nothing would change.")
        return self

    def rates(self) -> dict[str, float]:
        """The share of the words that each operation changes."""
        given = {"synonyms": self.synonyms, "insert": self.insert, "swap": self.swap, "delete": self.delete}
        return {name: 0.1 if rate is None else rate for name, rate in given.items()}

    def num_copies(self) -> int:
        """How many copies of every row are added."""
        return 0 if self.kind == "none" else 1 if self.copies is None else self.copies


def _as_joins(value: object) -> object:
    """A name alone is a file with nothing of its own; one file needs no list."""
    items = value if isinstance(value, list | tuple) else [value]
    return [{"file": item} if isinstance(item, str) else item for item in items]


def _as_names_or_tables(value: tuple[JoinRecipe, ...]) -> object:
    tables = [item.model_dump(mode="json", exclude_none=True) for item in value]
    return [table["file"] if list(table) == ["file"] else table for table in tables]


Joins = Annotated[tuple[JoinRecipe, ...], BeforeValidator(_as_joins), PlainSerializer(_as_names_or_tables)]
Augment = Annotated[AugmentRecipe, BeforeValidator(as_table), PlainSerializer(as_word_or_table)]
