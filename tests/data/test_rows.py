"""What a text, a label and an id may be."""

import json
from pathlib import Path
from typing import Any

import pytest

from polytask.data.rows import Row, canonical, label_names, read_rows
from polytask.data.sources import BadRow
from polytask.errors import DataError
from polytask.recipe_tasks import TaskRecipe


def task(**written: Any) -> TaskRecipe:
    return TaskRecipe.model_validate({"train": "train.csv", **written})


def read(folder: Path, content: str, *, labelled: bool = True, **written: Any) -> list[Row | BadRow]:
    path = folder / ("a.jsonl" if content.lstrip().startswith("{") else "a.csv")
    path.write_text(content, encoding="utf-8")
    return list(read_rows(path, task(**written), labelled=labelled))


def labels(rows: list[Row | BadRow]) -> list[object]:
    assert all(isinstance(row, Row) for row in rows), rows
    return [row.label for row in rows if isinstance(row, Row)]


def problems(rows: list[Row | BadRow]) -> list[str]:
    return [row.problem for row in rows if isinstance(row, BadRow)]


def test_a_whole_number_is_one_label_however_it_is_written(tmp_path: Path) -> None:
    assert labels(read(tmp_path, "text,label\na,1\nb,1.0\nc, 1.00 \n")) == ["1", "1", "1"]
    content = "".join(json.dumps({"text": "a", "label": cell}) + "\n" for cell in (1, 1.0, True, "1.0", "1"))
    assert labels(read(tmp_path, content)) == ["1"] * 5


@pytest.mark.parametrize(
    ("cell", "word"),
    [("-2.0", "-2"), ("1.5", "1.5"), ("01", "01"), ("v1.0", "v1.0"), (" a b ", "a b"), (1e30, str(10**30))],
)
def test_a_label_is_otherwise_left_as_it_is(cell: object, word: str) -> None:
    if cell == 1e30:
        word = str(int(1e30))
    assert canonical(cell) == word


def test_labels_name_what_stands_in_the_file(tmp_path: Path) -> None:
    rows = read(tmp_path, "text,label\na,0.0\nb,1\nc,2\n", labels={"0": "no", "1.0": "yes"})
    assert [row.label for row in rows[:2] if isinstance(row, Row)] == ["no", "yes"]
    assert problems(rows) == ["'label' should be one of 0, 1. Found '2'"]


def test_an_unknown_label_suggests_the_nearest(tmp_path: Path) -> None:
    rows = read(tmp_path, "text,label\na,positve\n", labels=["positive", "negative"])
    assert problems(rows) == [
        "'label' should be one of positive, negative. Found 'positve'; did you mean 'positive'?"
    ]


def test_one_cell_cannot_have_two_names() -> None:
    with pytest.raises(DataError, match="gives '1' two names, 'a' and 'b'"):
        label_names(task(labels={"1": "a", "1.0": "b"}))


def test_a_text_that_is_missing_empty_or_no_text_is_a_bad_row(tmp_path: Path) -> None:
    assert problems(read(tmp_path, "text,label\n,1\n   ,1\n")) == ["'text' is empty", "'text' is empty"]
    content = '{"text":"a","label":1}\n{"label":1}\n{"text":5,"label":1}\n{"text":null,"label":1}\n'
    assert problems(read(tmp_path, content)) == [
        "'text' is missing",
        "'text' should be text. Found 5",
        "'text' is missing",
    ]


def test_a_label_that_is_missing_or_empty_is_a_bad_row(tmp_path: Path) -> None:
    assert problems(read(tmp_path, "text,label\na,\nb, \n")) == ["'label' is empty", "'label' is empty"]
    content = (
        '{"text":"a","label":NaN}\n{"text":"a"}\n{"text":"a","label":[1]}\n{"text":"a","label":{"b":1}}\n'
    )
    assert problems(read(tmp_path, content)) == [
        "'label' is empty",
        "'label' is missing",
        "'label' should be one label. Found [1]",
        "'label' should be one label. Found {'b': 1}",
    ]


def test_similarities_keep_their_fractions(tmp_path: Path) -> None:
    rows = read(tmp_path, "text,label\na,3.8\nb,0\nc,1e-1\n", kind="regression", range=[0, 5])
    assert labels(rows) == [3.8, 0.0, 0.1]


@pytest.mark.parametrize("cell", ["x", "nan", "inf", "-Infinity", "1_000", "1e999", "0x10", "1,5", "٣٫٥"])
def test_what_is_not_a_finite_number_is_a_bad_row(tmp_path: Path, cell: str) -> None:
    rows = read(tmp_path, f'text,label\na,"{cell}"\n', kind="regression")
    assert problems(rows) == [f"'label' is not a number. Found {cell!r}"]


def test_a_value_outside_the_range_is_a_bad_row(tmp_path: Path) -> None:
    rows = read(tmp_path, "text,label\na,5.01\nb,-1\nc,5\n", kind="regression", range=[0, 5])
    assert problems(rows) == [
        "'label' should be from 0 to 5. Found 5.01",
        "'label' should be from 0 to 5. Found -1",
    ]


def test_a_boolean_is_no_regression_value(tmp_path: Path) -> None:
    assert problems(read(tmp_path, '{"text":"a","label":true}\n', kind="regression")) == [
        "'label' is not a number. Found True"
    ]


def test_names_of_a_multilabel_cell_are_joined_by_commas_and_none_is_none(tmp_path: Path) -> None:
    rows = read(tmp_path, 'text,label\na,"x, y,x"\nb,\nc,y\n', kind="multilabel")
    assert labels(rows) == [("x", "y"), (), ("y",)]


def test_a_multilabel_list_of_json_is_read_as_it_is(tmp_path: Path) -> None:
    cells = ('"label":["x,y",1.0]', '"label":[]', '"label":[["z"]]', '"other":1')
    content = "".join(f'{{"text":"a",{cell}}}\n' for cell in cells)
    rows = read(tmp_path, content, kind="multilabel")
    assert labels(rows[:2]) == [("x,y", "1"), ()]
    assert problems(rows) == ["'label' should be a list of labels. Found [['z']]", "'label' is missing"]


def test_columns_of_flags_are_labels_named_by_their_columns(tmp_path: Path) -> None:
    rows = read(
        tmp_path, "text,rude,spam\na,1,0.0\nb,0,0\nc,1.0,1\n", kind="multilabel", label=["rude", "spam"]
    )
    assert labels(rows) == [("rude",), (), ("rude", "spam")]
    rows = read(tmp_path, "text,rude,spam\na,2,0\nb,,1\n", kind="multilabel", label=["rude", "spam"])
    assert problems(rows) == ["'rude' should be 0 or 1. Found '2'", "'rude' should be 0 or 1. Found ''"]


def test_labels_of_flag_columns_have_to_name_every_column(tmp_path: Path) -> None:
    written: dict[str, Any] = {"kind": "multilabel", "label": ["rude", "spam"]}
    rows = read(tmp_path, "text,rude,spam\na,1,1\n", **written, labels={"rude": "R", "spam": "S"})
    assert labels(rows) == [("R", "S")]
    with pytest.raises(DataError, match="'spam' is missing"):
        read(tmp_path, "text,rude,spam\na,1,1\n", **written, labels={"rude": "R"})


def test_the_id_is_the_row_number_where_there_is_no_id_column(tmp_path: Path) -> None:
    rows = read(tmp_path, "text,label\na,1\n,1\nc,1\n")
    assert [row.id for row in rows if isinstance(row, Row)] == ["0", "2"]


def test_an_id_column_of_the_default_name_is_used_and_another_name_is_required(tmp_path: Path) -> None:
    rows = read(tmp_path, "id,text,label\nx7,a,1\n,b,1\n")
    assert [row.id for row in rows if isinstance(row, Row)] == ["x7", "1"]
    with pytest.raises(DataError, match="no column 'key'"):
        read(tmp_path, "id,text,label\nx7,a,1\n", id="key")
    assert problems(read(tmp_path, "key,text,label\n,a,1\n", id="key")) == ["'key', the id, is empty"]


def test_without_labels_the_label_column_is_neither_needed_nor_read(tmp_path: Path) -> None:
    assert labels(read(tmp_path, "text\na\n", labelled=False)) == [None]
    assert labels(read(tmp_path, "text,label\na,\n", labelled=False)) == [None]
    with pytest.raises(DataError, match="no column 'label'"):
        read(tmp_path, "text\na\n")


def test_pairs_keep_the_order_of_the_recipe(tmp_path: Path) -> None:
    rows = read(tmp_path, "a,b,label\n1st,2nd,x\n", text=["b", "a"])
    assert [row.texts for row in rows if isinstance(row, Row)] == [("2nd", "1st")]
    assert [row.line for row in rows] == [2]
