"""Preparation touches training rows only, says what it did, and gives the same rows for the same recipe."""

import csv
from pathlib import Path
from typing import Any

import pytest
from small_bert import write_bert

from polytask.data.prepare import TaskData, check, prepare
from polytask.data.rows import Row
from polytask.data.tokenizer import Tokenizer
from polytask.errors import DataError, RecipeError
from polytask.recipe import Recipe

LABELS = ("no", "yes", "yes", "yes", "maybe")
ROWS = [(f"{'film ' * number}is a good film", LABELS[number % 5]) for number in range(20)]
DEV = [("a bad film", "no"), ("a good film", "yes"), ("the film", "maybe")]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POLYTASK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return Tokenizer.load(write_bert(tmp_path))


def write(path: Path, rows: list[tuple[str, ...]], columns: tuple[str, ...] = ("text", "label")) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])


def recipe(folder: Path, top: dict[str, Any] | None = None, **task: Any) -> Recipe:
    """A recipe with one task `t` of twenty rows in three classes, and three dev rows."""
    write(folder / "train.csv", [*ROWS])
    write(folder / "dev.csv", [*DEV])
    files = {"train": "train.csv", "dev": "dev.csv"}
    return Recipe.from_dict({**(top or {}), "tasks": {"t": {**files, **task}}}, base=folder)


def prepared(written: Recipe, tokenizer: Tokenizer) -> TaskData:
    (item,) = prepare(written, tokenizer).values()
    return item


def train_rows(item: TaskData) -> list[Row]:
    return list(item.splits["train"].rows())


def failure(written: Recipe) -> str:
    with pytest.raises(DataError) as caught:
        check(written)
    return str(caught.value)


def assert_table_is_of(rows: list[Row], item: TaskData, tokenizer: Tokenizer) -> None:
    assert item.train is not None
    assert item.train.targets is not None
    assert item.train.num_rows == len(rows)
    assert item.train.lines.tolist() == [row.line for row in rows]
    assert [item.task.labels[target] for target in item.train.targets] == [row.label for row in rows]
    for number, row in enumerate(rows):
        assert item.train.text_ids(number, 0).tolist() == tokenizer.encode(row.texts)[0].tolist()


def test_the_longest_rows_are_left_out_and_the_rest_keep_their_order(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    item = prepared(recipe(tmp_path, drop_longest=0.27), tokenizer)
    rows = train_rows(item)
    assert [(*row.texts, row.label) for row in rows] == ROWS[:15]
    assert_table_is_of(rows, item, tokenizer)
    assert item.dev is not None
    assert item.dev.num_rows == 3
    assert item.notes == (
        "t train: left out the 5 longest of 20 rows (over 84 characters)",
        "t train: rows of each class: maybe 4 -> 3, no 4 -> 3, yes 12 -> 9",
    )


def test_a_task_may_leave_out_another_share_than_the_recipe(tmp_path: Path) -> None:
    top = {"drop_longest": 0.5}
    assert check(recipe(tmp_path, top))["t"].splits[0].num_rows == 10
    assert check(recipe(tmp_path, top, drop_longest=0.1))["t"].splits[0].num_rows == 18
    assert check(recipe(tmp_path, top, drop_longest=0))["t"].splits[0].num_rows == 20
    assert check(recipe(tmp_path, drop_longest=0.04))["t"].splits[0].num_rows == 20


def test_copies_follow_their_row_with_its_label_and_id(tmp_path: Path, tokenizer: Tokenizer) -> None:
    item = prepared(recipe(tmp_path, augment={"kind": "eda", "copies": 2}), tokenizer)
    rows = train_rows(item)
    assert_table_is_of(rows, item, tokenizer)
    assert [(*row.texts, row.label) for row in rows[::3]] == ROWS
    for original, *others in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        for copy in others:
            assert (copy.line, copy.id, copy.label) == (original.line, original.id, original.label)
            assert copy.texts != original.texts
    assert item.notes[0] == "t train: added 40 copies by EDA"
    assert not any("repeat the id" in note for note in item.notes)


def test_a_row_in_which_nothing_can_change_is_repeated_and_counted(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    written = recipe(tmp_path, augment="eda")
    write(tmp_path / "train.csv", [("good film", "yes"), ("1", "no"), ("not", "no")])
    item = prepared(
        Recipe.from_dict({"tasks": {"t": {"train": "train.csv", "augment": "eda"}}}, tmp_path), tokenizer
    )
    assert written.tasks["t"].augment.num_copies() == 1
    assert item.notes[0] == (
        "t train: added 3 copies by EDA; 2 of them repeat their row, in which nothing could change"
    )


@pytest.mark.parametrize("how", ["repeat", "eda"])
def test_classes_are_evened_out(how: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    item = prepared(recipe(tmp_path, balance=how), tokenizer)
    rows = train_rows(item)
    assert_table_is_of(rows, item, tokenizer)
    assert [sum(row.label == label for row in rows) for label in item.task.labels] == [12, 12, 12]
    text_of_line = {line: text for line, (text, _) in enumerate(ROWS, start=2)}
    as_they_were = sum(row.texts[0] == text_of_line[row.line] for row in rows)
    assert as_they_were == (36 if how == "repeat" else 20)
    assert any("maybe 4 -> 12, no 4 -> 12, yes 12 -> 12" in note for note in item.notes)


def test_classes_are_even_after_dropping_and_copying_too(tmp_path: Path) -> None:
    written = recipe(tmp_path, drop_longest=0.3, augment="eda", balance="repeat")
    plan = check(written)["t"].splits[0].plan
    assert plan is not None
    assert plan.after == {"maybe": 18, "no": 18, "yes": 18}
    assert plan.describe() == {
        "read": 20,
        "left_out": 6,
        "repeated": 26,
        "augmented": 14,
        "rows": 54,
        "classes_before": {"maybe": 4, "no": 4, "yes": 12},
        "classes_after": plan.after,
    }


def test_the_rows_are_a_function_of_the_recipe(tmp_path: Path, tokenizer: Tokenizer, cache: Path) -> None:
    def texts(**top: Any) -> list[tuple[str, ...]]:
        return [row.texts for row in train_rows(prepared(recipe(tmp_path, top, augment="eda"), tokenizer))]

    first = texts()
    assert texts() == first
    assert texts(seed=2) != first
    assert texts(seed=1) == first
    tables = len(list((cache / "tables").iterdir()))
    prepared(recipe(tmp_path, augment={"kind": "eda", "swap": 0.5}), tokenizer)
    prepared(recipe(tmp_path, augment={"kind": "eda", "copies": 2}), tokenizer)
    prepared(recipe(tmp_path, drop_longest=0.2), tokenizer)
    prepared(recipe(tmp_path), tokenizer)
    assert len(list((cache / "tables").iterdir())) == tables + 4


def test_what_was_prepared_once_is_not_tokenised_again(tmp_path: Path, tokenizer: Tokenizer) -> None:
    said: list[str] = []
    for _ in range(2):
        prepare(recipe(tmp_path, augment="eda", drop_longest=0.1), tokenizer, said.append)
    assert [line for line in said if "train" in line and "tokenising" in line] == [
        "tokenising t train, 36 rows"
    ]


def join(folder: Path, tokenizer: Tokenizer, *joined: Any, **task: Any) -> TaskData:
    return prepared(recipe(folder, join=list(joined), **task), tokenizer)


def test_a_joined_file_adds_rows_under_the_tasks_labels(tmp_path: Path, tokenizer: Tokenizer) -> None:
    write(tmp_path / "more.csv", [("bad " * 40, "0"), ("good good", "1")], ("sentence", "sentiment"))
    more = {"file": "more.csv", "text": "sentence", "label": "sentiment", "labels": {"0": "no", "1": "yes"}}
    item = join(tmp_path, tokenizer, {**more, "max_length": 8})
    rows = train_rows(item)
    assert [row.label for row in rows[20:]] == ["no", "yes"]
    assert item.train is not None
    assert item.train.num_rows == 22
    assert item.train.lengths()[20:, 0].tolist() == [6, 2]
    assert item.train.lengths()[:20, 0].max() > 8
    assert item.dev is not None
    assert item.dev.num_rows == 3
    assert item.notes[:2] == (
        f"t train: joined 2 rows of {tmp_path / 'more.csv'}, each cut at 8 tokens",
        "t train: rows of each class: maybe 4 -> 4, no 4 -> 5, yes 12 -> 13",
    )


def test_a_joined_file_is_read_as_the_task_unless_it_says_otherwise(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    write(tmp_path / "more.csv", [("the film", "no"), ("a bad film", "maybe")])
    item = join(tmp_path, tokenizer, "more.csv")
    assert [row.label for row in train_rows(item)[20:]] == ["no", "maybe"]
    assert item.notes[-1] == (
        f"t dev: 2 of 3 rows also stand in train (first: line 2 is line 3 of {tmp_path / 'more.csv'}), "
        "which flatters the scores on it"
    )
    assert not any("repeat the id" in note for note in item.notes)
    pair = join(tmp_path, tokenizer, "more.csv", "train.csv", drop_longest=0.5)
    assert pair.train is not None
    assert pair.train.num_rows == 10 + 1 + 10


def test_pairs_are_cut_together(tmp_path: Path, tokenizer: Tokenizer) -> None:
    write(tmp_path / "pairs.csv", [("a", "a", "x"), ("the", "film", "y")], ("one", "two", "label"))
    write(tmp_path / "more.csv", [("good " * 9, "bad " * 3, "x")], ("one", "two", "label"))
    task = {"train": "pairs.csv", "text": ["one", "two"], "join": [{"file": "more.csv", "max_length": 9}]}
    item = prepared(Recipe.from_dict({"tasks": {"t": task}}, tmp_path), tokenizer)
    assert item.train is not None
    assert item.train.lengths()[2].tolist() == [3, 3]


@pytest.mark.parametrize(
    ("joined", "part"),
    [
        ("none.csv", "tasks.t.join.0: "),
        ({"file": "more.csv", "label": "lable"}, "tasks.t.join.0: "),
        (
            {"file": "more.csv", "labels": {"no": "now", "maybe": "no"}},
            "tasks.t.join.0.labels: a label should be one of",
        ),
        ({"file": "more.csv", "labels": {"no": "yes"}}, "more.csv:3: 'label' should be one of no"),
        ({"file": "other.csv"}, "other.csv:2: 'label' should be one of"),
    ],
)
def test_a_joined_file_that_does_not_fit_is_refused(joined: Any, part: str, tmp_path: Path) -> None:
    write(tmp_path / "more.csv", [("the film", "no"), ("a film", "maybe")])
    write(tmp_path / "other.csv", [("the film", "5")])
    assert part in failure(recipe(tmp_path, join=[joined]))


def test_with_train_on_dev_there_is_no_dev_and_it_is_said(tmp_path: Path, tokenizer: Tokenizer) -> None:
    item = prepared(recipe(tmp_path, {"train_on_dev": True}), tokenizer)
    assert item.dev is None
    assert item.train is not None
    assert item.train.num_rows == 23
    assert [(*row.texts, row.label) for row in train_rows(item)[20:]] == DEV
    assert item.notes[0] == (
        "t train: the 3 dev rows are trained on, so there are no dev scores and the last weights are "
        "the model"
    )
    assert prepared(recipe(tmp_path), tokenizer).train is not None


def test_train_on_dev_needs_dev_rows_and_no_choice_by_dev(tmp_path: Path) -> None:
    without = Recipe.from_dict({"train_on_dev": True, "tasks": {"t": {"train": "dev.csv"}}}, tmp_path)
    write(tmp_path / "dev.csv", [*DEV])
    assert failure(without) == "train_on_dev is true, but no task has dev rows."
    with pytest.raises(RecipeError) as caught:
        recipe(tmp_path, {"train_on_dev": True, "phases": [{"patience": 2}, {"begin": "best"}]})
    assert str(caught.value).splitlines() == [
        "phases.0.patience needs dev scores, but train_on_dev is true.",
        "phases.1.begin = 'best' needs dev scores, but train_on_dev is true.",
    ]


def test_a_range_is_that_of_all_training_files(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", [("a", "1"), ("b", "3")])
    write(tmp_path / "more.csv", [("c", "5")])
    task = {"train": "train.csv", "kind": "regression", "join": "more.csv"}
    assert check(Recipe.from_dict({"tasks": {"t": task}}, tmp_path))["t"].task.range == (1.0, 5.0)
