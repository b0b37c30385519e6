"""A recipe's files as tables: labels found, mistakes listed, leaks and repeats told, work done once."""

import gzip
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from small_bert import write_bert

from polytask.data.prepare import TaskData, check, check_files, load_split, prepare
from polytask.data.tokenizer import Tokenizer
from polytask.errors import DataError
from polytask.recipe import Recipe


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POLYTASK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return Tokenizer.load(write_bert(tmp_path))


def recipe(folder: Path, files: dict[str, str], **task: Any) -> Recipe:
    """A recipe with one task `t`, whose files are written from `files`."""
    top = {key: task.pop(key) for key in ("bad_rows",) if key in task}
    for split, content in files.items():
        (folder / f"{split}.csv").write_text(content, encoding="utf-8")
        task[split] = f"{split}.csv"
    return Recipe.from_dict({**top, "tasks": {"t": task}}, base=folder)


def failure(written: Recipe) -> str:
    with pytest.raises(DataError) as caught:
        check(written)
    return str(caught.value)


def one(data: dict[str, TaskData]) -> TaskData:
    (item,) = data.values()
    return item


TRAIN = "text,label\ngood,yes\nbad,no\nfilm,yes\n"


def test_labels_are_discovered_on_train_and_recorded_in_order(tmp_path: Path, tokenizer: Tokenizer) -> None:
    found = one(prepare(recipe(tmp_path, {"train": TRAIN}), tokenizer))
    assert found.task.labels == ("no", "yes")
    assert found.train is not None
    assert found.train.targets is not None
    assert found.train.targets.tolist() == [1, 0, 1]
    numbers = "text,label\na,10\na,9.0\na,-1\na,0.5\n"
    assert check(recipe(tmp_path, {"train": numbers}))["t"].task.labels == ("-1", "0.5", "9", "10")


def test_labels_of_the_recipe_keep_their_order(tmp_path: Path, tokenizer: Tokenizer) -> None:
    found = one(prepare(recipe(tmp_path, {"train": TRAIN}, labels={"yes": "Y", "no": "N"}), tokenizer))
    assert found.task.labels == ("Y", "N")
    assert found.train is not None
    assert found.train.targets is not None
    assert found.train.targets.tolist() == [0, 1, 0]


def test_a_dev_label_that_train_never_has_is_a_bad_row(tmp_path: Path) -> None:
    said = failure(recipe(tmp_path, {"train": TRAIN, "dev": "text,label\na,yes\nb,yess\n"}))
    assert f"{tmp_path / 'dev.csv'}:3: 'label' should be one of no, yes. Found 'yess'; did you" in said


def test_a_range_is_that_of_train_unless_written_and_dev_may_leave_a_found_one(tmp_path: Path) -> None:
    files = {"train": "text,label\na,1\nb,4.5\n", "dev": "text,label\na,7\n"}
    assert check(recipe(tmp_path, files, kind="regression"))["t"].task.range == (1.0, 4.5)
    said = failure(recipe(tmp_path, files, kind="regression", range=[0, 5]))
    assert "dev.csv:2: 'label' should be from 0 to 5. Found 7" in said


def test_bad_rows_of_all_files_are_listed_twenty_and_counted(tmp_path: Path) -> None:
    train = TRAIN + ",yes\n" * 15
    said = failure(recipe(tmp_path, {"train": train, "dev": "text,label\na,yes\n" + "b,maybe\n" * 15}))
    lines = said.splitlines()
    assert lines[0] == '30 bad rows; bad_rows = "skip" leaves such rows out:'
    assert lines[1] == f"{tmp_path / 'train.csv'}:5: 'text' is empty"
    assert "dev.csv:3" in lines[16]
    assert lines[21:] == ["... and 10 more"]


def test_skipped_rows_are_counted_in_a_note(tmp_path: Path, tokenizer: Tokenizer) -> None:
    found = one(prepare(recipe(tmp_path, {"train": TRAIN + ",yes\nlast,no\n"}, bad_rows="skip"), tokenizer))
    assert found.train is not None
    assert found.train.num_rows == 4
    assert found.train.lines.tolist() == [2, 3, 4, 6]
    assert found.notes == (
        f"t train: left out 1 of 5 rows (first: {tmp_path / 'train.csv'}:5: 'text' is empty)",
    )


def test_a_task_may_stop_where_the_recipe_skips(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(TRAIN + ",yes\n")
    tasks = {"a": {"train": "a.csv"}, "b": {"train": "a.csv", "bad_rows": "stop"}}
    said = failure(Recipe.from_dict({"bad_rows": "skip", "tasks": tasks}, base=tmp_path))
    assert said.startswith("1 bad row;")


def test_a_test_file_needs_no_labels_but_has_them_checked(tmp_path: Path, tokenizer: Tokenizer) -> None:
    found = one(prepare(recipe(tmp_path, {"train": TRAIN, "test": "text\na\n"}), tokenizer))
    assert found.test is not None
    assert found.test.targets is None
    found = one(prepare(recipe(tmp_path, {"train": TRAIN, "test": "text,label\na,no\n"}), tokenizer))
    assert found.test is not None
    assert found.test.targets is not None
    assert found.test.targets.tolist() == [0]
    assert "test.csv:2" in failure(recipe(tmp_path, {"train": TRAIN, "test": "text,label\na,what\n"}))


def test_dev_rows_that_stand_in_train_are_noted(tmp_path: Path, tokenizer: Tokenizer) -> None:
    dev = "text,label\nnew,yes\nBAD ,no\nfilm,no\n"
    (note,) = one(prepare(recipe(tmp_path, {"train": TRAIN, "dev": dev}), tokenizer)).notes
    assert note.startswith("t dev: 2 of 3 rows also stand in train (first: line 3 is line 3 there)")


def test_repeated_ids_are_noted_with_their_lines(tmp_path: Path, tokenizer: Tokenizer) -> None:
    train = "id,text,label\nx,good,yes\ny,bad,no\ny,film,no\nx,good,yes\n"
    (note,) = one(prepare(recipe(tmp_path, {"train": train}), tokenizer)).notes
    assert note == (
        "t train: 2 rows repeat the id of an earlier row (first: 'y' on lines 3 and 4); "
        "1 rows repeat the texts of one"
    )


def test_equal_texts_without_equal_ids_are_no_news(tmp_path: Path, tokenizer: Tokenizer) -> None:
    assert one(prepare(recipe(tmp_path, {"train": TRAIN + "good,no\n"}), tokenizer)).notes == ()


@pytest.mark.parametrize(
    ("train", "task", "said"),
    [
        ("text,label\na,x\nb,x\n", {}, "every row has the label 'x'"),
        ("text,label\na,x\nb,x\n", {"labels": ["x", "y"]}, "every row has the label 'x'"),
        ("text,label\na,1\nb,1\n", {"kind": "regression"}, "every row has the value 1"),
        ("text,label\na,\nb,\n", {"kind": "multilabel"}, "no row has any label"),
        ("text,label\n,x\n,y\n", {"bad_rows": "skip"}, "has no usable row (first: 'text' is empty)"),
        ("text,label\n", {}, "has no rows"),
        ("", {}, "is empty"),
    ],
)
def test_a_training_file_that_teaches_nothing_is_refused(
    tmp_path: Path, train: str, task: dict[str, Any], said: str
) -> None:
    message = failure(recipe(tmp_path, {"train": train}, **task))
    assert f"tasks.t.train: {tmp_path / 'train.csv'}" in message
    assert said in message


def test_a_text_column_taken_for_labels_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polytask.data.scan.MAX_LABELS", 5)
    rows = "".join(f"a,text {number}\n" for number in range(9))
    assert "more than 5 different labels" in failure(recipe(tmp_path, {"train": "text,label\n" + rows}))


def test_every_missing_file_and_column_is_told_at_once_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sentence,label\nx,1\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"text,label\nx,1\n")[:12])
    tasks = {
        "one": {"train": "a.csv", "dev": "missing.csv", "text": "sentense"},
        "two": {"train": "b.csv.gz", "kind": "regression"},
    }
    with pytest.raises(DataError) as caught:
        check_files(Recipe.from_dict({"tasks": tasks}, base=tmp_path))
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines] == ["tasks.one.train", "tasks.one.dev", "tasks.two.train"]
    assert "did you mean 'sentence'?" in lines[0]
    assert "no such file" in lines[1]
    assert "cut short" in lines[2]


def test_damage_late_in_a_file_is_found_by_the_full_check(tmp_path: Path) -> None:
    whole = gzip.compress(b"text,label\n" + b"".join(b"row %d,%d\n" % (n, n % 2) for n in range(60_000)))
    (tmp_path / "a.csv.gz").write_bytes(whole[: len(whole) // 2])
    written = Recipe.from_dict({"tasks": {"t": {"train": "a.csv.gz"}}}, base=tmp_path)
    check_files(written)
    assert failure(written).startswith("tasks.t.train: ")


def test_the_second_time_nothing_is_read_or_tokenised(tmp_path: Path, tokenizer: Tokenizer) -> None:
    said: list[str] = []
    written = recipe(tmp_path, {"train": TRAIN, "dev": "text,label\nnew,yes\n"})
    prepare(written, tokenizer, said.append)
    assert [line.split()[0] for line in said] == ["reading", "reading", "tokenising", "tokenising"]
    said.clear()
    again = one(prepare(written, tokenizer, said.append))
    assert said == []
    assert again.train is not None
    assert again.train.num_rows == 3


@pytest.mark.parametrize(
    "change",
    [
        {"files": {"train": TRAIN + "more,no\n"}},
        {"labels": ["yes", "no"]},
        {"text": "label"},
        {"id": "text"},
    ],
)
def test_whatever_decides_the_table_makes_a_new_one(
    tmp_path: Path, tokenizer: Tokenizer, change: dict[str, Any]
) -> None:
    said: list[str] = []
    prepare(recipe(tmp_path, {"train": TRAIN}), tokenizer)
    prepare(recipe(tmp_path, change.pop("files", {"train": TRAIN}), **change), tokenizer, said.append)
    assert any(line.startswith("tokenising") for line in said)


def test_another_tokenizer_makes_another_table(tmp_path: Path, tokenizer: Tokenizer) -> None:
    said: list[str] = []
    written = recipe(tmp_path, {"train": TRAIN})
    prepare(written, tokenizer)
    vocabulary = tmp_path / "encoder" / "vocab.txt"
    vocabulary.write_text(vocabulary.read_text() + "yes\n")
    prepare(written, Tokenizer.load(tmp_path / "encoder"), said.append)
    assert [line.split()[0] for line in said] == ["tokenising"]


def test_a_damaged_cache_is_rebuilt(tmp_path: Path, tokenizer: Tokenizer, cache: Path) -> None:
    written = recipe(tmp_path, {"train": TRAIN})
    prepare(written, tokenizer)
    for path in cache.rglob("*"):
        if path.is_file():
            path.write_bytes(b"{}")
    found = one(prepare(written, tokenizer))
    assert found.train is not None
    assert found.train.lengths().sum() == 3
    assert found.task.labels == ("no", "yes")


def test_a_renamed_file_with_the_same_bad_row_is_named_as_it_is_now(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text(TRAIN + ",yes\n")
    for name in ("old.csv", "new.csv"):
        if name == "new.csv":
            (tmp_path / "old.csv").rename(tmp_path / "new.csv")
        said = failure(Recipe.from_dict({"tasks": {"t": {"train": name}}}, base=tmp_path))
        assert f"{tmp_path / name}:5: " in said


def test_a_cache_that_cannot_be_written_says_which_variable_moves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("POLYTASK_CACHE", str(tmp_path / "file"))
    assert "POLYTASK_CACHE" in failure(recipe(tmp_path, {"train": TRAIN}))


def test_one_more_file_is_read_with_the_labels_of_the_model(tmp_path: Path, tokenizer: Tokenizer) -> None:
    written = recipe(tmp_path, {"train": TRAIN})
    task = check(written)["t"].task
    more = tmp_path / "more.csv"
    more.write_text("text,label\nnew,yes\n")
    table = load_split(task, written.tasks["t"], more, tokenizer)
    assert table.targets is not None
    assert table.targets.tolist() == [1]
    more.write_text("text,label\nnew,maybe\n")
    with pytest.raises(DataError, match=r"more\.csv:2: 'label' should be one of no, yes"):
        load_split(task, written.tasks["t"], more, tokenizer)
    said: list[str] = []
    more.write_text("text,label\nnew,maybe\nold,no\n")
    skipping = written.tasks["t"].model_copy(update={"bad_rows": "skip"})
    assert load_split(task, skipping, more, tokenizer, said.append).num_rows == 1
    assert any("left out 1 of 2 rows" in line for line in said)


def test_the_data_modules_do_not_import_torch_or_pyarrow() -> None:
    code = (
        "import sys; import polytask.data.prepare, polytask.data.known; "
        "sys.exit(bool({'torch', 'pyarrow', 'tokenizers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
