"""Sets from a hub on the loopback interface: known and any, with faults, offline, checked and cached."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fake_hub import TOKEN, FakeHub, point_client_at, served, sha256

from polytask.data.catalogue import KNOWN_SETS
from polytask.data.hub_files import files_of_splits
from polytask.data.known import fetch_set, known_sets, resolve, show_set
from polytask.data.prepare import check
from polytask.errors import DataError
from polytask.hub import HubFailure
from polytask.recipe import Recipe
from polytask.recipe_tasks import TaskRecipe

CLASSES = ("entailment", "neutral", "contradiction")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    monkeypatch.setenv("POLYTASK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("POLYTASK_DATA", raising=False)
    with served() as found:
        point_client_at(found, str(tmp_path / "hub-cache"), monkeypatch)
        yield found


def parquet(columns: dict[str, Any], **classes: list[str]) -> bytes:
    """A Parquet file as the hub has them, with the names of classes in its schema."""
    table = pa.table(columns)
    features: dict[str, Any] = {}
    for name, names in classes.items():
        label = {"names": names, "_type": "ClassLabel"}
        is_list = pa.types.is_list(table[name].type)
        features[name] = {"feature": label, "_type": "Sequence"} if is_list else label
    about = json.dumps({"info": {"features": features}})
    target = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"huggingface": about}), target)
    return target.getvalue()


def pairs(count: int, labels: list[int], words: str = "a") -> bytes:
    texts = {name: [f"{name} {words} {n}" for n in range(count)] for name in ("premise", "hypothesis")}
    return parquet({**texts, "label": labels, "idx": list(range(count))}, label=list(CLASSES))


def serve_known(hub: FakeHub, name: str, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> str:
    """A known set whose pinned commit is what the loopback hub has."""
    from dataclasses import replace

    known = KNOWN_SETS[name]
    assert known.hub is not None
    commit = hub.add(f"datasets/{known.hub.name}", files)
    pinned = replace(known, hub=replace(known.hub, revision=commit))
    monkeypatch.setitem(KNOWN_SETS, name, pinned)
    return commit


def resolved(base: Path, **task: Any) -> TaskRecipe:
    return resolve(Recipe.from_dict({"tasks": {"t": task}}, base=base)).tasks["t"]


MNLI = {
    "mnli/train-00000-of-00002.parquet": pairs(9, [0, 1, 2] * 3),
    "mnli/train-00001-of-00002.parquet": pairs(3, [2, -1, 0], "b"),
    "mnli/validation_matched-00000-of-00001.parquet": pairs(4, [0, 1, 2, 0]),
    "mnli/validation_mismatched-00000-of-00001.parquet": pairs(5, [0, 1, 2, 0, 1]),
    "mnli/test_matched-00000-of-00001.parquet": pairs(6, [-1] * 6),
    "mnli/test_mismatched-00000-of-00001.parquet": pairs(7, [-1] * 7),
    "cola/train-00000-of-00001.parquet": b"never fetched",
}


def test_a_known_set_is_fetched_at_its_commit_with_names_for_numbers(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = serve_known(hub, "glue/mnli", MNLI, monkeypatch)
    hub.repositories["datasets/nyu-mll/glue"].commit({"mnli/train.parquet": b"a later commit"})
    hub.faults.extend([("GET /cdn/", "cut"), ("GET /api/datasets", "429"), ("HEAD /datasets", "500")])
    found = resolved(tmp_path, train="glue/mnli", dev="glue/mnli:dev_mismatched")
    assert hub.faults == []
    item = check(Recipe.from_dict({"tasks": {"t": found.model_dump(exclude_none=True)}}))["t"]
    # One of the twelve rows of train has no label.
    assert {split.name: split.num_rows for split in item.splits} == {"train": 11, "dev": 5, "test": 6}
    assert item.task.labels == CLASSES
    assert item.splits[2].labelled is False
    rows = pq.read_table(found.train).to_pylist()
    assert rows[1] == {"id": 1, "premise": "premise a 1", "hypothesis": "hypothesis a 1", "label": "neutral"}
    assert not any("cola" in request for request in hub.asked if "/resolve/" in request)
    info = next(item for item in known_sets() if item.name == "glue/mnli")
    assert info.rows == {"train": 11, "dev": 4, "dev_mismatched": 5, "test": 6, "test_mismatched": 7}
    shown = show_set("glue/mnli")
    assert (shown["revision"], shown["rows"]["dev_mismatched"]) == (commit, 5)


def test_a_set_without_dev_rows_gives_a_tenth_of_train_by_its_texts(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"news number {n}" for n in range(400)] + ["news number 7"] * 20
    train = parquet(
        {"text": texts, "label": [n % 4 for n in range(420)]}, label=["World", "Sports", "Business", "Sci"]
    )
    test = parquet({"text": ["x", "y"], "label": [0, 1]}, label=["World", "Sports", "Business", "Sci"])
    splits = "".join(f"  - split: {split}\n    path: data/{split}-*\n" for split in ("train", "test"))
    card = f"---\nconfigs:\n- config_name: default\n  data_files:\n{splits}---\n".encode()
    files = {
        "data/train-00000-of-00001.parquet": train,
        "data/test-00000-of-00001.parquet": test,
        "README.md": card,
    }
    serve_known(hub, "ag-news", files, monkeypatch)
    found = resolved(tmp_path, train="ag-news")
    kept = {
        split: pq.read_table(str(getattr(found, split)))["text"].to_pylist() for split in ("train", "dev")
    }
    assert len(kept["train"]) + len(kept["dev"]) == 420
    assert 20 <= len(kept["dev"]) <= 80
    assert not set(kept["train"]) & set(kept["dev"])
    assert check(Recipe.from_dict({"tasks": {"t": found.model_dump(exclude_none=True)}}))[
        "t"
    ].task.labels == (
        "Business",
        "Sci",
        "Sports",
        "World",
    )
    assert show_set("ag-news")["dev_is_a_tenth_of_train"] is True


def test_lists_of_classes_are_a_multilabel_task(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = parquet(
        {"text": ["a", "b", "c", "d"], "labels": [[0], [1, 2], [], [2]], "id": ["w", "x", "y", "z"]},
        labels=["joy", "anger", "fear"],
    )
    files = {
        f"simplified/{split}-00000-of-00001.parquet": content for split in ("train", "validation", "test")
    }
    serve_known(hub, "go-emotions", files, monkeypatch)
    found = resolved(tmp_path, train="go-emotions")
    assert (found.kind, found.label) == ("multilabel", ("labels",))
    assert pq.read_table(found.train)["labels"].to_pylist() == [["joy"], ["anger", "fear"], [], ["fear"]]
    task = check(Recipe.from_dict({"tasks": {"t": found.model_dump(exclude_none=True)}}))["t"].task
    assert task.labels == ("anger", "fear", "joy")


def test_any_set_on_the_hub_is_a_task_with_its_columns(hub: FakeHub, tmp_path: Path) -> None:
    lines = "".join(
        json.dumps({"question": f"q {n}", "kind": ["how", "why"][n % 2]}) + "\n" for n in range(8)
    )
    files = {
        "train.jsonl": lines.encode(),
        "dev.jsonl": lines.encode(),
        "other.txt": b"",
        "extra/train.csv": b"a,b\n1,2\n",
    }
    hub.add("datasets/owner/faq", files)
    found = resolved(tmp_path, train="hub:owner/faq", text="question", label="kind")
    assert found.test is None
    item = check(Recipe.from_dict({"tasks": {"t": found.model_dump(exclude_none=True)}}))["t"]
    assert {split.name: split.num_rows for split in item.splits} == {"train": 8, "dev": 8}
    assert item.task.labels == ("how", "why")
    one = resolved(tmp_path, train="hub:owner/faq:extra:train", text="a", label="b")
    assert (one.dev, Path(one.train).name) == (None, "train.parquet")
    with pytest.raises(DataError, match="hub:owner/faq::test: has no test split; it has dev, train"):
        resolved(tmp_path, train="hub:owner/faq::test", text="question", label="kind")
    with pytest.raises(DataError, match=r"the configuration of owner/faq should be one of .* Found 'extr'"):
        resolved(tmp_path, train="hub:owner/faq:extr")
    with pytest.raises(DataError, match="a set on the hub should be hub:owner/name:config"):
        resolved(tmp_path, train="hub:faq")


def test_a_set_in_another_form_is_read_from_the_copy_that_the_hub_makes(hub: FakeHub, tmp_path: Path) -> None:
    hub.add("datasets/owner/old", {"old.py": b"a loading script, never run"})
    hub.repositories["datasets/owner/old"].commit(
        {"default/train/0000.parquet": pairs(3, [0, 1, 2])}, "refs/convert/parquet"
    )
    found = resolved(tmp_path, train="hub:owner/old", text=["premise", "hypothesis"])
    assert pq.read_table(found.train)["label"].to_pylist() == list(CLASSES)


def test_what_was_fetched_is_not_asked_for_again_even_offline(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("datasets/owner/faq", {"train.csv": b"text,label\na,1\nb,0\n"})
    first = resolved(tmp_path, train="hub:owner/faq").train
    hub.repositories["datasets/owner/faq"].commit({"train.csv": b"text,label\na,1\nb,0\nc,1\n"})
    hub.asked.clear()
    monkeypatch.setenv("POLYTASK_OFFLINE", "1")
    assert resolved(tmp_path, train="hub:owner/faq").train == first
    with pytest.raises(
        DataError, match=r"tasks\.t\.train: owner/other is not in the cache.*POLYTASK_OFFLINE is set"
    ):
        resolved(tmp_path, train="hub:owner/other")
    with pytest.raises(DataError, match=r"tasks\.t\.train: stanfordnlp/snli@cdb5c3d5.* is not in the cache"):
        resolved(tmp_path, train="snli")
    assert hub.asked == []
    monkeypatch.delenv("POLYTASK_OFFLINE")
    fetch_set("hub:owner/faq", again=True)
    assert pq.read_table(first).num_rows == 3


def test_a_private_set_needs_the_token(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("datasets/owner/own", {"train.csv": b"text,label\na,1\nb,0\n"}, private=True)
    with pytest.raises(DataError, match="no public dataset of this name; for a private one set HF_TOKEN"):
        resolved(tmp_path, train="hub:owner/own")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert pq.read_table(resolved(tmp_path, train="hub:owner/own").train).num_rows == 2


def test_a_file_with_other_bytes_than_the_hub_lists_is_refused(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = pairs(30, [0, 1, 2] * 10)
    hub.add("datasets/owner/set", {"train.parquet": content})
    wrong = content[:-1] + b"!"
    original = FakeHub.fault_of

    def change(self: FakeHub, request: str) -> Any:
        if "GET /cdn/" in request:
            self.uploads[sha256(content)] = wrong
        return original(self, request)

    monkeypatch.setattr(FakeHub, "fault_of", change)
    with pytest.raises(DataError, match=r"the SHA-256 of train.parquet is not the one that the hub lists"):
        resolved(tmp_path, train="hub:owner/set", text=["premise", "hypothesis"])
    monkeypatch.setattr(FakeHub, "fault_of", original)
    hub.uploads.clear()
    assert resolved(tmp_path, train="hub:owner/set", text=["premise", "hypothesis"]).train


def test_what_is_no_table_and_what_has_no_splits_are_told(hub: FakeHub, tmp_path: Path) -> None:
    hub.add("datasets/owner/broken", {"train.parquet": b"no parquet"})
    with pytest.raises(DataError, match=r"train\.parquet: cannot be read as a table"):
        resolved(tmp_path, train="hub:owner/broken")
    hub.add("datasets/owner/empty", {"README.md": b"---\nlicense: mit\n---\n"})
    hub.repositories["datasets/owner/empty"].commit({"README.md": b""}, "refs/convert/parquet")
    with pytest.raises(DataError, match="has no Parquet, JSON Lines, CSV or TSV files"):
        resolved(tmp_path, train="hub:owner/empty")


def test_a_hub_that_fails_is_no_mistake_of_the_recipe(hub: FakeHub, tmp_path: Path) -> None:
    hub.faults.extend([("/api/datasets", "500")] * 30)
    with pytest.raises(HubFailure, match="500"):
        resolved(tmp_path, train="hub:owner/set")


@pytest.mark.parametrize(
    ("paths", "config", "splits"),
    [
        (["train.csv", "test.csv", "notes.csv"], None, {"train", "test"}),
        (
            ["data/train-00000-of-00001.parquet", "data/validation-00000-of-00001.parquet"],
            None,
            {"train", "validation"},
        ),
        (["en/train.jsonl.gz", "de/train.jsonl.gz", "de/dev.jsonl.gz"], "de", {"train", "validation"}),
        (["plain/train/0000.parquet", "plain/test/0000.parquet"], None, {"train", "test"}),
        (["train.txt"], None, set()),
    ],
)
def test_splits_are_found_by_the_names_of_files(
    paths: list[str], config: str | None, splits: set[str]
) -> None:
    assert set(files_of_splits(paths, {}, config, "owner/name")) == splits


def test_several_configurations_without_a_name_are_asked_for() -> None:
    with pytest.raises(DataError, match="several configurations: name one of de, en after a colon"):
        files_of_splits(["en/train.csv", "de/train.csv"], {}, None, "owner/name")
    card = {
        "configs": [
            {"config_name": "x", "data_files": "x.csv"},
            {"config_name": "y", "data_files": ["y*.csv"]},
        ]
    }
    with pytest.raises(DataError, match="name one of x, y"):
        files_of_splits(["x.csv"], card, None, "owner/name")
    assert files_of_splits(["y1.csv", "y2.csv"], card, "y", "owner/name") == {"train": ["y1.csv", "y2.csv"]}
