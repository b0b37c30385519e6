"""Files and standard input are answered row by row, in their order, and a bad row is named by its line."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from polytask.deploy import predict as module
from polytask.deploy.model import Model, load
from polytask.deploy.predict import predict_file, predict_lines
from polytask.errors import DataError, UserError


@pytest.fixture
def model(trained: Path, one_thread: None) -> Model:
    return load(trained, precision="fp32")


def lines(model: Model, task: str | None, content: bytes) -> list[dict[str, Any]]:
    return list(predict_lines(model, task, io.BytesIO(content)))


def test_a_files_rows_are_answered_in_order_with_their_ids(model: Model, tiny: Path) -> None:
    found = list(predict_file(model, "mood", tiny / "mood-dev.tsv"))
    assert [record["row"] for record in found] == list(range(30))
    assert [record["id"] for record in found] == [f"m{number}" for number in range(30)]
    assert {record["task"] for record in found} == {"mood"}
    first = (tiny / "mood-dev.tsv").read_text().splitlines()[1].split("\t")[1]
    assert found[0]["probabilities"] == pytest.approx(
        model.predict("mood", [first])[0]["probabilities"], abs=1e-5
    )


def test_all_tasks_that_read_the_files_columns_answer(model: Model, tiny: Path) -> None:
    found = list(predict_file(model, None, tiny / "mood-dev.tsv"))
    assert [(record["row"], record["task"]) for record in found[:4]] == [
        (0, "mood"),
        (0, "tags"),
        (1, "mood"),
        (1, "tags"),
    ]
    assert {record["task"] for record in predict_file(model, None, tiny / "alike-dev.tsv")} == {"alike"}


def test_a_file_that_fits_tasks_of_different_columns_needs_a_choice(model: Model, tmp_path: Path) -> None:
    (tmp_path / "all.tsv").write_text("text\tfirst\tsecond\na\tb\tc\n")
    with pytest.raises(UserError, match="mood, tags, alike with --task"):
        list(predict_file(model, None, tmp_path / "all.tsv"))
    assert len(list(predict_file(model, "alike", tmp_path / "all.tsv"))) == 1


def test_chunks_change_no_answer(model: Model, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(predict_file(model, None, tiny / "mood-dev.tsv"))
    monkeypatch.setattr(module, "ROWS_PER_CHUNK", 7)
    cut = list(predict_file(model, None, tiny / "mood-dev.tsv"))
    assert [(r["row"], r["id"], r["task"]) for r in cut] == [(r["row"], r["id"], r["task"]) for r in whole]
    for found, expected in zip(cut, whole, strict=True):
        assert found["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-5)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.tsv", "text\nfine\n\t\n", ":3: "),
        ("a.tsv", "words\nfine\n", "has no column 'text'"),
        ("a.tsv", "text\n", "has no rows"),
        ("a.tsv", "", "is empty"),
        ("a.txt", "fine", "should end in"),
        ("a.jsonl", '{"text": "fine"}\n{"text": 3}\n', ":2: 'text' should be text"),
        ("a.jsonl", '{"text": "fine"}\n{\n', ":2: is not JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_its_line(
    model: Model, tmp_path: Path, name: str, content: str, said: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=said) as caught:
        list(predict_file(model, None, tmp_path / name))
    assert str(tmp_path / name) in str(caught.value)


def test_labels_are_not_looked_at(model: Model, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("text\tlabel\nfine\tnonsense\n")
    assert len(list(predict_file(model, "mood", tmp_path / "a.tsv"))) == 1


def test_lines_may_end_in_crlf_and_begin_with_a_bom(model: Model) -> None:
    plain = lines(model, "mood", b"the film is good\nthe song\n")
    assert lines(model, "mood", b"\xef\xbb\xbfthe film is good\r\nthe song") == plain
    assert [(record["row"], record["id"]) for record in plain] == [(0, "0"), (1, "1")]


def test_no_lines_are_no_answers(model: Model) -> None:
    assert lines(model, "mood", b"") == []


def test_a_pair_is_two_texts_and_a_tab(model: Model) -> None:
    (found,) = lines(model, "alike", b"a film\ta song\n")
    assert found["value"] == pytest.approx(
        model.predict("alike", [("a film", "a song")])[0]["value"], abs=1e-6
    )


@pytest.mark.parametrize(
    ("task", "content", "said"),
    [
        ("mood", b"fine\n\n", "standard input:2: should be a text"),
        ("mood", b"fine\n\xff\n", "standard input:2: not UTF-8"),
        ("alike", b"fine\n", "standard input:1: should be two texts separated by a tab"),
        ("alike", b"a\tb\tc\n", "standard input:1: should be two texts"),
        ("alike", b"a\t \n", "standard input:1: should be two texts"),
        ("mod", b"fine\n", "did you mean 'mood'"),
        (None, b"fine\n", "--task"),
    ],
)
def test_a_line_that_does_not_fit_is_named(model: Model, task: str | None, content: bytes, said: str) -> None:
    with pytest.raises(UserError, match=said):
        lines(model, task, content)


def test_a_line_without_an_end_is_refused_before_memory_is_full(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LINE", 10)
    with pytest.raises(DataError, match="standard input:2: is longer than 10 bytes"):
        lines(model, "mood", b"fine\n" + b"a" * 30)


def test_a_source_that_was_tampered_with_is_refused(trained: Path, one_thread: None, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(trained / "model", tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    config["sources"]["mood"] = {"text": 3}
    (folder / "config.json").write_text(json.dumps(config))
    (tmp_path / "a.tsv").write_text("text\nfine\n")
    with pytest.raises(UserError, match=r"sources\.mood: text should be a list"):
        list(predict_file(load(folder), "mood", tmp_path / "a.tsv"))
