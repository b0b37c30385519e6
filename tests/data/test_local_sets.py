"""GLUE in its own folders: every file read as it is, headerless CoLA, open quotes and MNLI's two dev sets."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from glue_layout import SIZES, write_glue

from polytask.data.catalogue_glue import GLUE_SETS
from polytask.data.known import known_sets, resolve
from polytask.data.prepare import check
from polytask.errors import DataError
from polytask.recipe import Recipe

NINE = [name for name in GLUE_SETS if name != "glue/ax"]


@pytest.fixture
def glue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POLYTASK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("POLYTASK_OFFLINE", "1")
    monkeypatch.delenv("POLYTASK_DATA", raising=False)
    return write_glue(tmp_path / "glue")


def recipe(base: Path, data: str | None, **tasks: object) -> Recipe:
    return Recipe.from_dict({"tasks": tasks} | ({"data": data} if data else {}), base=base)


@pytest.mark.parametrize("place", ["key", "variable", "glue_data"])
def test_all_nine_tasks_are_whole_from_a_folder(
    glue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    data: str | None = "glue"
    if place == "variable":
        monkeypatch.setenv("POLYTASK_DATA", str(glue))
        data = None
    if place == "glue_data":
        (tmp_path / "all").mkdir()
        glue.rename(tmp_path / "all" / "glue_data")
        data = "all"
    tasks = {name.removeprefix("glue/"): {"train": name} for name in NINE}
    checked = check(resolve(recipe(tmp_path, data, **tasks)))
    assert len(checked) == 9
    for name, item in checked.items():
        known = GLUE_SETS[f"glue/{name}"]
        assert {split.name: split.num_rows for split in item.splits} == SIZES
        assert [split.labelled for split in item.splits] == [True, True, False]
        assert item.task.metric == known.metric
        assert item.task.labels == tuple((known.labels or {}).values())
        assert item.task.in_mean == (name != "wnli")
        assert item.task.range == ((0.0, 5.0) if name == "stsb" else None)


def test_mnli_has_two_dev_sets_and_two_test_sets(glue: Path, tmp_path: Path) -> None:
    written = {"train": "glue/mnli", "dev": "glue/mnli:dev_mismatched", "test": "glue/mnli:test_mismatched"}
    found = resolve(recipe(tmp_path, "glue", m=written)).tasks["m"]
    assert Path(str(found.dev)).name == "dev_mismatched.parquet"
    assert Path(str(found.test)).name == "test_mismatched.parquet"
    matched = resolve(recipe(tmp_path, "glue", m={"train": "glue/mnli"})).tasks["m"]
    assert Path(str(matched.dev)).name == "dev.parquet"
    with pytest.raises(DataError, match="glue/mnli has no dev_other split; it has train, dev, dev_mism"):
        resolve(recipe(tmp_path, "glue", m={"train": "glue/mnli", "dev": "glue/mnli:dev_other"}))


def test_sentences_are_kept_to_the_letter_and_ids_are_the_files_own(glue: Path, tmp_path: Path) -> None:
    found = resolve(recipe(tmp_path, "glue", c={"train": "glue/cola"}, s={"train": "glue/stsb"}))
    lines = (glue / "CoLA" / "train.tsv").read_text().splitlines()
    rows = pq.read_table(found.tasks["c"].train).to_pylist()
    assert [row["sentence"] for row in rows] == [line.split("\t")[3] for line in lines]
    assert rows[1]["label"] == "acceptable"
    assert all('"' in row["sentence"] for row in rows)
    test = pq.read_table(str(found.tasks["c"].test)).to_pylist()
    assert [row["id"] for row in test] == [str(number) for number in range(SIZES["test"])]
    assert "label" not in test[0]
    assert pq.read_table(found.tasks["s"].train)["label"].to_pylist()[:2] == [0.5, 4.5]


def test_a_line_with_too_few_cells_is_a_bad_row(glue: Path, tmp_path: Path) -> None:
    path = glue / "QQP" / "train.tsv"
    path.write_text(path.read_text() + "99\t1\t2\tonly one question\n", encoding="utf-8")
    written = {"train": "glue/qqp"}
    with pytest.raises(DataError, match=r"1 bad row.*\n.*train.parquet:25: 'question1' is missing"):
        check(resolve(recipe(tmp_path, "glue", q=written)))
    skipped = check(resolve(recipe(tmp_path, "glue", q={**written, "bad_rows": "skip"})))["q"]
    assert skipped.splits[0].num_rows == SIZES["train"]


def test_changed_files_are_read_anew_and_a_wrong_header_is_told(glue: Path, tmp_path: Path) -> None:
    first = resolve(recipe(tmp_path, "glue", r={"train": "glue/rte"})).tasks["r"].train
    path = glue / "RTE" / "train.tsv"
    path.write_text(path.read_text().replace("sentence2", "sentence_2"), encoding="utf-8")
    with pytest.raises(DataError, match=r"has no column 'sentence2'.*did you mean 'sentence_2'"):
        resolve(recipe(tmp_path, "glue", r={"train": "glue/rte"}))
    path.write_text(path.read_text().replace("sentence_2", "sentence2") + "77\ta\tb\tentailment\n")
    again = resolve(recipe(tmp_path, "glue", r={"train": "glue/rte"})).tasks["r"].train
    assert pq.read_table(again).num_rows == pq.read_table(first).num_rows + 1


def test_the_list_counts_rows_of_sets_that_are_here(glue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTASK_DATA", str(glue))
    sets = {item.name: item for item in known_sets()}
    assert sets["glue/rte"].rows == SIZES
    assert sets["glue/ax"].rows == {"test": 5}
    assert sets["snli"].rows == {"train": None, "dev": None, "test": None}


def test_a_data_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="data: there is no folder"):
        resolve(recipe(tmp_path, "none", r={"train": "glue/rte"}))
