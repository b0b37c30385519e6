"""Named sets: what they fill in, what they leave to the user, and names that lead nowhere."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from polytask.data import fetch as fetching
from polytask.data.cache import build_folder
from polytask.data.fetch import DEMO_SETS, demo_folder
from polytask.data.known import KNOWN_SETS, fetch_set, known_sets, resolve
from polytask.data.prepare import check
from polytask.errors import DataError
from polytask.recipe import Recipe
from polytask.recipe_tasks import METRICS_OF_KIND, TaskRecipe

PAIR = "\tid\tsentence1\tsentence2\t"


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """POLYTASK_DATA with two tiny CS224N sets."""
    folder = tmp_path / "data"
    folder.mkdir()
    for split in ("train", "dev"):
        (folder / f"quora-{split}.csv").write_text(PAIR + "is_duplicate\n1\tx\ta\tb\t1.0\n2\ty\tc\td\t0.0\n")
        (folder / f"sts-{split}.csv").write_text(PAIR + "similarity\n1\tx\ta\tb\t3.8\n2\ty\tc\td\t0.0\n")
    (folder / "sts-test-student.csv").write_text("\tid\tsentence1\tsentence2\n1\tx\ta\tb\n")
    monkeypatch.setenv("POLYTASK_DATA", str(folder))
    monkeypatch.setenv("POLYTASK_CACHE", str(tmp_path / "cache"))
    return folder


def recipe(base: Path, **task: Any) -> Recipe:
    return Recipe.from_dict({"tasks": {"t": task}}, base=base)


def resolved(base: Path, **task: Any) -> TaskRecipe:
    return resolve(recipe(base, **task)).tasks["t"]


def failure(base: Path, **task: Any) -> str:
    with pytest.raises(DataError) as caught:
        resolve(recipe(base, **task))
    return str(caught.value)


def test_a_name_alone_is_a_whole_task(tmp_path: Path, data_folder: Path) -> None:
    found = resolved(tmp_path, train="cs224n/sts")
    assert (found.train, found.dev) == (str(data_folder / "sts-train.csv"), str(data_folder / "sts-dev.csv"))
    assert found.test == str(data_folder / "sts-test-student.csv")
    assert (found.kind, found.range, found.labels) == ("regression", (0.0, 5.0), None)
    assert (found.text, found.label) == (("sentence1", "sentence2"), ("similarity",))


def test_the_names_of_a_set_reach_its_task(tmp_path: Path) -> None:
    task = check(resolve(recipe(tmp_path, train="cs224n/quora")))["t"].task
    assert task.labels == ("different", "duplicate")
    assert task.texts == 2


def test_what_the_user_wrote_stays(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text(PAIR + "is_duplicate\n1\tx\ta\tb\t1.0\n")
    found = resolved(
        tmp_path, train="cs224n/quora", dev="own.csv", labels={"0": "no", "1": "yes"}, metric="f1"
    )
    assert found.dev == str(tmp_path / "own.csv")
    assert found.labels == {"0": "no", "1": "yes"}
    assert found.metric == "f1"
    assert found.label == ("is_duplicate",)


def test_another_kind_does_not_inherit_labels_that_it_cannot_have(tmp_path: Path) -> None:
    found = resolved(tmp_path, train="cs224n/quora", kind="regression")
    assert (found.kind, found.labels, found.range) == ("regression", None, None)


def test_a_metric_that_the_sets_kind_lacks_is_told(tmp_path: Path) -> None:
    assert failure(tmp_path, train="cs224n/sts", metric="accuracy").startswith(
        "tasks.t.metric should be one of pearson, spearman, mse. Found 'accuracy'"
    )


def test_a_known_dev_beside_an_own_train_brings_its_columns(tmp_path: Path, data_folder: Path) -> None:
    (tmp_path / "own.csv").write_text(PAIR + "is_duplicate\n1\tx\ta\tb\t1.0\n")
    found = resolved(tmp_path, train="own.csv", dev="cs224n/quora")
    assert found.dev == str(data_folder / "quora-dev.csv")
    assert found.text == ("sentence1", "sentence2")
    assert found.test is None


def test_own_paths_become_absolute_from_the_recipes_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.csv").write_text("text,label\na,1\n")
    assert resolved(tmp_path, train="deep/a.csv").train == str(tmp_path / "deep" / "a.csv")
    assert resolved(tmp_path, train="missing.csv").train == str(tmp_path / "missing.csv")


def test_resolving_again_after_a_round_trip_through_toml_changes_nothing(tmp_path: Path) -> None:
    once = resolve(recipe(tmp_path, train="cs224n/sts"))
    again = resolve(Recipe.from_dict(tomllib.loads(once.to_toml()), base=tmp_path / "elsewhere"))
    assert again.tasks == once.tasks
    assert check(again)["t"].task == check(once)["t"].task


def test_names_that_lead_nowhere_are_all_told_with_the_nearest(tmp_path: Path) -> None:
    written = {"a": {"train": "cs224n/quorra"}, "b": {"train": "cs224n/quora", "test": "cs224n/quora"}}
    with pytest.raises(DataError) as caught:
        resolve(Recipe.from_dict({"tasks": written}, base=tmp_path))
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("tasks.a.train: 'cs224n/quorra' is neither a file")
    assert lines[0].endswith("did you mean 'cs224n/quora'?")
    assert lines[1] == "tasks.b.test: cs224n/quora has no test split; it has train, dev."


def test_a_misspelt_set_without_a_slash_is_suggested_too(tmp_path: Path) -> None:
    assert failure(tmp_path, train="snlii").endswith("did you mean 'snli'?")


def test_a_set_that_cannot_be_downloaded_says_where_its_files_belong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data_folder: Path
) -> None:
    assert f"no file ids-sst-train.csv in POLYTASK_DATA ({data_folder})" in failure(
        tmp_path, train="cs224n/sst"
    )
    monkeypatch.delenv("POLYTASK_DATA")
    assert "cannot be downloaded: set POLYTASK_DATA" in failure(tmp_path, train="cs224n/sst")
    with pytest.raises(DataError, match="cannot be downloaded"):
        fetch_set("cs224n/sst")
    with pytest.raises(DataError, match="did you mean 'demo/sts'"):
        fetch_set("demo/stss")


def test_a_sets_own_test_rows_may_be_missing_but_not_those_that_a_recipe_names(
    tmp_path: Path, data_folder: Path
) -> None:
    (data_folder / "sts-test-student.csv").unlink()
    assert resolved(tmp_path, train="cs224n/sts").test is None
    assert "no file sts-test-student.csv" in failure(tmp_path, train="cs224n/sts", test="cs224n/sts")


def test_every_set_is_listed_with_the_rows_that_are_here() -> None:
    sets = {item.name: item for item in known_sets()}
    assert list(sets) == list(KNOWN_SETS)
    assert sets["cs224n/sts"].rows == {"train": 2, "dev": 2, "test": 1}
    assert sets["demo/movies"].rows == {"train": None, "dev": None}
    assert sets["cs224n/quora"].to_dict()["labels"] == ("different", "duplicate")
    assert all(item.licence and item.origin for item in sets.values())


def test_a_demo_set_is_fetched_when_a_recipe_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = "id,sentence1,sentence2,similarity\n"

    def fill(work: Path) -> None:
        for split in ("train", "dev", "test"):
            (work / f"{split}.csv").write_text(columns + "0,a,b,1.5\n1,c,d,2.5\n")

    def fetch(name: str, _: object) -> Path:
        build_folder(demo_folder(name), fill)
        return demo_folder(name)

    monkeypatch.setattr("polytask.data.fetch.fetch", fetch)
    found = resolved(tmp_path, train="demo/sts")
    assert found.train == str(demo_folder("demo/sts") / "train.csv")
    assert found.test == str(demo_folder("demo/sts") / "test.csv")


def test_each_sets_words_fit_together() -> None:
    for name, known in KNOWN_SETS.items():
        assert {"train", "dev"} <= set(known.files) or name == "glue/ax", name
        assert known.kind in METRICS_OF_KIND
        assert known.metric is None or known.metric in METRICS_OF_KIND[known.kind]
        assert not (known.labels and known.kind == "regression"), name
        assert (known.range is not None) == (known.kind == "regression"), name
        assert known.citation
        if known.hub is not None:
            assert set(known.hub.splits) <= set(known.files) | {"train"} or name == "glue/ax", name
            assert known.hub.pinned or name.startswith("sick/"), name
        if known.local is not None:
            assert set(known.local.files) == set(known.files), name
            assert {*known.text, "id", "label"} == set(known.local.columns), name
            assert set(known.local.words.values()) <= set(known.labels or {}), name
    for name, demo in DEMO_SETS.items():
        assert demo.columns == (*KNOWN_SETS[name].text, KNOWN_SETS[name].label)
    assert set(fetching.QUESTION_TYPES.values()) == set(KNOWN_SETS["demo/questions"].labels or {})
    assert [label for _, label in fetching.MOVIE_CLASSES] == list(KNOWN_SETS["demo/movies"].labels or {})
