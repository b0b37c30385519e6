"""Predictions are read as far as they are whole, and texts are found again by id and label."""

from pathlib import Path

import numpy as np
import pytest
from fake_answers import write_answered, write_task

from polytask.recipe import Recipe
from polytask.recipe_tasks import Kind
from polytask.report import answers
from polytask.report.answers import read_answers
from polytask.report.texts import find_texts

ROWS = [
    ("a", "first", "yes", "no", [0.2, 0.8]),
    ("b", "second", "no", "no", [0.4, 0.6]),
    ("c", "third", "yes", "yes", [0.7, 0.3]),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_answered(tmp_path, {"ask": "classification"})
    write_task(tmp_path, "ask", ROWS, ["yes", "no"])
    return tmp_path


def predictions(folder: Path, name: str = "ask") -> Path:
    return folder / "predictions" / f"{name}-dev.csv"


def test_classes_are_numbered_as_the_probabilities_are(folder: Path) -> None:
    found = read_answers(predictions(folder), "classification")
    assert found
    assert found.labels == ("yes", "no")
    assert found.ids == ["a", "b", "c"]
    assert found.targets.tolist() == [0, 1, 0]
    assert found.answers.tolist() == [1, 1, 0]
    assert found.wrong.tolist() == [True, False, False]
    assert found.whole


def test_labels_with_commas_are_told_apart(tmp_path: Path) -> None:
    write_answered(tmp_path, {"tags": "multilabel"})
    rows = [("a", "t", "red, blue,green", "", [0.1, 0.2, 0.3]), ("b", "t", "", "green", [0.1, 0.2, 0.9])]
    write_task(tmp_path, "tags", rows, ["red, blue", "blue", "green"])
    found = read_answers(predictions(tmp_path, "tags"), "multilabel")
    assert found
    assert found.targets.tolist() == [[True, False, True], [False, False, False]]
    assert found.wrong.tolist() == [True, True]
    assert found.word(found.targets, 0) == "red, blue, green"


@pytest.mark.parametrize(
    "line",
    [
        "9",
        "9,x,,no,0.5,0.5",
        "9,x,maybe,no,0.5,0.5",
        "9,x,yes,no,0.5",
        "9,x,yes,no,0.5,nan",
        "9,x,yes,no,a,b",
    ],
)
def test_a_line_that_cannot_be_used_is_left_out(folder: Path, line: str) -> None:
    with predictions(folder).open("a") as file:
        file.write(line + "\n")
    found = read_answers(predictions(folder), "classification")
    assert found
    assert found.ids == ["a", "b", "c"]


@pytest.mark.parametrize("content", ["", "row,id\n", "row,id,target,answer\n0,a,yes,no\n", "\0\n" * 5])
@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_a_file_of_another_form_is_no_answer(folder: Path, content: str, kind: Kind) -> None:
    predictions(folder).write_text(content)
    assert read_answers(predictions(folder), kind) is None


def test_reading_stops_at_the_bound_and_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_ROWS", 2)
    found = read_answers(predictions(folder), "classification")
    assert found
    assert (len(found.ids), found.whole) == (2, False)


def texts_of(folder: Path, wanted: set[int]) -> dict[int, tuple[str, ...]]:
    recipe = Recipe.load(folder / "recipe.toml")
    found = read_answers(predictions(folder), "classification")
    assert found
    return find_texts(recipe.tasks["ask"], recipe.base, found, wanted)


def test_texts_are_found_past_rows_that_were_skipped(folder: Path) -> None:
    lines = (folder / "ask.csv").read_text().splitlines()
    lines[2:2] = ["x,,no", "a,another,no"]  # an empty text, and an id that occurs twice
    (folder / "ask.csv").write_text("\n".join(lines))
    assert texts_of(folder, {0, 2}) == {0: ("first",), 2: ("third",)}


def test_texts_of_a_file_that_changed_are_not_shown(folder: Path) -> None:
    (folder / "ask.csv").write_text("id,text,label\na,first,yes\nb,second,yes\nc,third,yes\n")
    assert texts_of(folder, {0, 1, 2}) == {0: ("first",)}


@pytest.mark.parametrize("content", [None, "", "one,two\n1,2\n", "\0"])
def test_a_file_that_is_gone_has_no_texts(folder: Path, content: str | None) -> None:
    (folder / "ask.csv").unlink()
    if content is not None:
        (folder / "ask.csv").write_text(content)
    assert texts_of(folder, {0}) == {}


def test_values_read_back_are_those_that_were_written(tmp_path: Path) -> None:
    write_answered(tmp_path, {"near": "regression"}, rows=40)
    recipe = Recipe.load(tmp_path / "recipe.toml")
    found = read_answers(predictions(tmp_path, "near"), "regression")
    assert found
    assert np.all((found.targets >= 0) & (found.targets <= 5))
    assert len(find_texts(recipe.tasks["near"], recipe.base, found, set(range(40)))) == 40
