"""Answers are written in whole rows, bad rows keep their numbers, and what came before one is answered."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from polytask.data.sources import BadRow
from polytask.deploy import predict as module
from polytask.deploy.model import Model, load
from polytask.deploy.predict import predict_file, predict_lines
from polytask.deploy.records import Format, RecordWriter
from polytask.errors import DataError, UserError
from polytask.tasks import Task

TASKS = {
    "mood": Task("mood", "classification", 1, ("bad", "good"), None, "accuracy"),
    "tags": Task("tags", "multilabel", 1, ("good", "film"), None, "f1_macro"),
    "length": Task("length", "regression", 1, (), (0.0, 9.0), "pearson"),
}


def records_of(row: int) -> list[dict[str, Any]]:
    lead = {"row": row, "id": f'a"{row},é\n'}
    return [
        {**lead, "task": "mood", "label": "good", "probabilities": {"bad": 0.25, "good": 0.75}},
        {**lead, "task": "tags", "labels": ["good", "film"], "probabilities": {"good": 0.5, "film": 0.9}},
        {**lead, "task": "length", "value": 3.4},
    ]


def written(form: Format, records: list[dict[str, Any]], *, complete: bool = True) -> str:
    file = io.StringIO()
    writer = RecordWriter(file, form, TASKS)
    for record in records:
        writer.write(record)
    writer.end(complete=complete)
    return file.getvalue()


def test_json_lines_and_lists_hold_the_records() -> None:
    records = records_of(0) + records_of(1)
    assert [json.loads(line) for line in written("jsonl", records).splitlines()] == records
    assert json.loads(written("json", records)) == records
    assert json.loads(written("json", [])) == []
    assert written("jsonl", []) == ""


def test_csv_has_a_column_a_label() -> None:
    rows = list(csv.DictReader(io.StringIO(written("csv", records_of(0)))))
    assert list(rows[0]) == ["row", "id", "task", "answer", "p(bad)", "p(good)", "p(film)"]
    assert [row["answer"] for row in rows] == ["good", "good,film", "3.4"]
    assert rows[0]["id"] == 'a"0,é\n'
    assert [row["p(good)"] for row in rows] == ["0.750000", "0.500000", ""]


@pytest.mark.parametrize("form", ["jsonl", "json", "csv"])
@pytest.mark.parametrize("given", [3, 4, 5])
def test_an_interrupted_row_is_left_out_whole(form: Format, given: int) -> None:
    records = (records_of(0) + records_of(1))[:given]
    whole = records_of(0) if given > 3 else []
    assert written(form, records, complete=False) == written(form, whole)


@pytest.fixture
def model(trained: Path, one_thread: None) -> Model:
    return load(trained, precision="fp32")


def test_skipped_rows_are_told_and_the_others_keep_their_numbers(model: Model, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\nfine\n\t\ngood\n")
    skipped: list[BadRow] = []
    found = list(predict_file(model, "mood", tmp_path / "a.tsv", on_bad_row=skipped.append))
    assert [(record["row"], record["id"]) for record in found] == [(0, "0"), (2, "2")]
    assert [row.line for row in skipped] == [3]
    lines = b"fine\n\xff\n\n" + b"a" * 50 + b"\ngood\n"
    skipped.clear()
    found = list(predict_lines(model, "mood", io.BytesIO(lines), on_bad_row=skipped.append))
    assert [record["row"] for record in found] == [0, 3, 4]
    assert [str(row).split(":")[1] for row in skipped] == ["2", "3"]


def test_a_line_cut_for_its_length_is_one_row(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINE", 10)
    skipped: list[BadRow] = []
    given = io.BytesIO(b"fine\n" + b"a" * 35 + b"\ngood\n")
    found = list(predict_lines(model, "mood", given, on_bad_row=skipped.append))
    assert [record["row"] for record in found] == [0, 2]
    assert len(skipped) == 1


def test_rows_before_a_bad_one_are_answered_first(model: Model, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\nfine\ngood\n\t\ngood\n")
    found = predict_file(model, "mood", tmp_path / "a.tsv")
    assert [next(found)["row"], next(found)["row"]] == [0, 1]
    with pytest.raises(DataError, match=":4:"):
        next(found)


def test_long_texts_make_short_chunks(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHARACTERS_PER_CHUNK", 100)
    asked: list[int] = []
    predict = Model.predict

    def counting(self: Model, texts: Any) -> Any:
        asked.append(len(texts["mood"]))
        return predict(self, texts)

    monkeypatch.setattr(Model, "predict", counting)
    (tmp_path / "a.tsv").write_text("text\n" + ("good " * 10 + "\n") * 5)
    assert len(list(predict_file(model, "mood", tmp_path / "a.tsv"))) == 5
    assert asked == [2, 2, 1]


def test_other_columns_are_read_when_named(model: Model, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("review,other\ngood film,bad song\n")
    asked = {record["task"] for record in predict_file(model, None, tmp_path / "a.csv", text=["review"])}
    assert asked == {"mood", "tags"}
    (pair,) = predict_file(model, None, tmp_path / "a.csv", text=["review", "other"])
    expected = model.predict("alike", [("good film", "bad song")])[0]["value"]
    assert pair["value"] == pytest.approx(expected, abs=1e-6)
    with pytest.raises(UserError, match="mood reads one text"):
        list(predict_file(model, "mood", tmp_path / "a.csv", text=["review", "other"]))
    with pytest.raises(UserError, match="no task of the model reads 3 texts"):
        list(predict_file(model, None, tmp_path / "a.csv", text=["review", "other", "more"]))
