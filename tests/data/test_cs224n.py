"""The CS224N files as they are: tab-separated, quoted, with columns that have no name."""

from pathlib import Path

import pytest
from small_bert import write_bert

from polytask.data.prepare import check, prepare
from polytask.data.tokenizer import Tokenizer
from polytask.errors import DataError
from polytask.recipe import Recipe

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def test_the_cs224n_files_are_read_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not SHARED.is_dir():
        pytest.skip(f"the real data is not at {SHARED}")
    monkeypatch.setenv("POLYTASK_CACHE", str(tmp_path / "cache"))
    tokenizer = Tokenizer.load(write_bert(tmp_path))
    pair = {"text": ["sentence1", "sentence2"]}
    sst = {"text": "sentence", "label": "sentiment", "test": "ids-sst-test-student.csv"}
    sts = {"label": "similarity", "test": "sts-test-student.csv", "kind": "regression", "range": [0, 5]}
    tasks = {
        "sst": {"train": "ids-sst-train.csv", "dev": "ids-sst-dev.csv", **sst},
        "quora": {"train": "quora-train.csv", "dev": "quora-dev.csv", "label": "is_duplicate", **pair},
        "sts": {"train": "sts-train.csv", "dev": "sts-dev.csv", **sts, **pair},
    }
    written = Recipe.from_dict({"tasks": tasks}, base=SHARED)
    with pytest.raises(DataError) as caught:
        check(written)
    said = str(caught.value)
    assert said.splitlines()[0].startswith("2 bad rows")
    assert "quora-train.csv:11683: 'sentence2' is empty" in said
    assert "quora-train.csv:13630: 'is_duplicate' is empty" in said
    data = prepare(written.changed(bad_rows="skip"), tokenizer)
    rows = {
        name: [table.num_rows for table in (item.train, item.dev, item.test) if table is not None]
        for name, item in data.items()
    }
    assert rows == {"sst": [7443, 1101, 2210], "quora": [13997, 3000], "sts": [5177, 863, 1725]}
    assert data["quora"].task.labels == ("0", "1")
    assert data["sts"].dev is not None
    assert data["sts"].dev.targets is not None
    assert data["sts"].dev.targets[:2].tolist() == pytest.approx([2.8, 3.0])
