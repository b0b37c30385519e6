"""An export is written only if it answers as the model does, and answers without torch."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from polytask import api
from polytask.deploy import checks, onnx_graph
from polytask.deploy.checks import TaskCheck, problem
from polytask.deploy.export import ExportRefused, export
from polytask.deploy.model import Model, load
from polytask.errors import ModelError, UserError
from polytask.tasks import Task

TEXTS = ["the film is good", "a", "the song is very awful x y z a b c d e f g h", "Zürich 😀"]
PAIRS = [(first, second) for first in TEXTS for second in TEXTS[:3]]
ASKED: dict[str, Any] = {"mood": TEXTS, "alike": PAIRS, "tags": TEXTS}


@pytest.fixture(scope="module")
def written(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The tiny run's model as ONNX, and what the export told."""
    folder = tmp_path_factory.mktemp("exports") / "onnx"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYTASK_CACHE", str(folder.parent / "cache"))
        told = export(trained, "onnx", out=folder)
    return folder, told


@pytest.fixture
def exported(written: tuple[Path, dict[str, Any]]) -> Model:
    return load(written[0])


@pytest.fixture
def model(trained: Path, one_thread: None) -> Model:
    return load(trained, precision="fp32")


def numbers(answer: dict[str, Any]) -> list[float]:
    return list(answer["probabilities"].values()) if "probabilities" in answer else [answer["value"]]


def test_the_exported_model_answers_as_the_one_it_came_from(exported: Model, model: Model) -> None:
    found, expected = exported.predict(ASKED), model.predict(ASKED)
    for name in ASKED:
        for ours, theirs in zip(found[name], expected[name], strict=True):
            assert ours.keys() == theirs.keys()
            assert numbers(ours) == pytest.approx(numbers(theirs), abs=1e-4)
    assert np.allclose(exported.embed(TEXTS), model.embed(TEXTS), atol=1e-4)
    assert exported.embed([]).shape == (0, 16)


def test_one_text_alone_is_answered_as_in_company(exported: Model) -> None:
    together = exported.predict("alike", PAIRS)
    for pair, expected in zip(PAIRS, together, strict=True):
        assert exported.predict("alike", [pair])[0]["value"] == pytest.approx(expected["value"], abs=1e-4)


def test_what_was_compared_is_told_and_stored(written: tuple[Path, dict[str, Any]], trained: Path) -> None:
    folder, told = written
    assert told["checked_on"] == "the run's dev rows"
    scores = json.loads((trained / "scores.json").read_text())["tasks"]
    for name, check in told["tasks"].items():
        assert check["largest_difference"] <= 1e-4
        assert check["score_change"] <= 1e-6
        assert check["rows"] == 30
        assert check["score_before"] == pytest.approx(scores[name]["score"], abs=0.05)
    stored = json.loads((folder / "export.json").read_text())
    assert stored == {key: value for key, value in told.items() if key != "folder"}
    names = {path.name for path in folder.iterdir()}
    assert names == {"README.md", "config.json", "export.json", "model.onnx", "tokenizer.json"}
    assert str(Path.cwd()) not in (folder / "model.onnx").read_bytes().decode("latin-1")


def test_an_exported_model_predicts_without_torch(
    written: tuple[Path, dict[str, Any]], tiny: Path, tmp_path: Path
) -> None:
    code = """
import sys, json
import polytask as pt
model = pt.load(sys.argv[1])
print(json.dumps([model.predict("mood", ["the film is good"]), model.embed(["a"]).shape]))
from polytask.cli import app
app(["predict", sys.argv[1], sys.argv[2], "--out", sys.argv[3]], standalone_mode=False)
sys.exit("torch" in sys.modules)
"""
    out = tmp_path / "answers.jsonl"
    ran = subprocess.run(
        [sys.executable, "-c", code, str(written[0]), str(tiny / "mood-dev.tsv"), str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    answer, shape = json.loads(ran.stdout)
    assert set(answer[0]) == {"label", "probabilities"}
    assert shape == [1, 16]
    assert len(out.read_text().splitlines()) == 60


def test_int8_answers_nearly_the_same_and_keeps_products_and_tables_in_int8(
    trained: Path, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polytask.deploy.quantize.SMALLEST_TABLE", 64)
    told = export(trained, "onnx", int8=True, out=tmp_path / "int8", tolerance=0.2)
    assert told["int8"]
    graph = onnx.load(tmp_path / "int8" / "model.onnx").graph
    stored = {item.name: item for item in graph.initializer}
    words = [name for name, item in stored.items() if name.endswith(".int8") and item.dims[1] == 16]
    assert words
    assert stored[words[0]].data_type == onnx.TensorProto.INT8
    products = [node for node in graph.node if node.op_type == "MatMulInteger"]
    assert len(products) >= 2 * 4
    scales = [list(item.dims) for name, item in stored.items() if name.endswith("_scale")]
    assert [48] in scales  # query, key and value together have a scale a channel
    found = load(tmp_path / "int8").predict(ASKED)
    for name, answers in model.predict(ASKED).items():
        for ours, theirs in zip(found[name], answers, strict=True):
            assert numbers(ours) == pytest.approx(numbers(theirs), abs=0.1)


def test_an_export_that_answers_otherwise_is_refused_and_nothing_is_left(
    trained: Path, one_thread: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = onnx_graph.build_graph

    def wrong(model: Any) -> Any:
        head = model.heads["task-mood"].output[0]
        with torch.no_grad():
            head.bias[0] += 1.0
        graph = build(model)
        with torch.no_grad():
            head.bias[0] -= 1.0
        return graph

    monkeypatch.setattr(onnx_graph, "build_graph", wrong)
    with pytest.raises(
        ExportRefused, match=r"nothing was written: mood: answers differ by 0\.\d+, more than"
    ) as caught:
        export(trained, "onnx", out=tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert "tags" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def check(**changes: Any) -> TaskCheck:
    values = {"rows": 100, "largest_difference": 0.0, "same_answers": 1.0, "metric": "accuracy"}
    return TaskCheck(**{**values, "score_before": 0.8, "score_after": 0.8, **changes})


MOOD = Task("mood", "classification", 1, ("a", "b"), None, "accuracy")
ERROR = Task("length", "regression", 1, (), (0.0, 40.0), "mse")


@pytest.mark.parametrize(
    ("task", "found", "int8", "tolerance", "said"),
    [
        (MOOD, check(largest_difference=9e-5), False, None, None),
        (MOOD, check(largest_difference=2e-4), False, None, "answers differ by 0.0002"),
        (MOOD, check(largest_difference=2e-4), False, 1e-3, None),
        (MOOD, check(score_after=0.795, largest_difference=0.2), True, None, None),
        (MOOD, check(score_after=0.78), True, None, "accuracy goes from 0.8000 to 0.7800"),
        (MOOD, check(score_after=0.82), True, None, "accuracy goes from 0.8000 to 0.8200"),
        (MOOD, check(score_after=0.78), True, 0.03, None),
        (MOOD, check(score_before=None, score_after=None, same_answers=0.96), True, None, None),
        (MOOD, check(score_before=None, score_after=None, same_answers=0.9), True, None, "only 90%"),
        (ERROR, check(metric="mse", score_before=4.0, score_after=4.5), True, None, None),
        (ERROR, check(metric="mse", score_before=4.0, score_after=6.0), True, None, "mse goes from"),
    ],
)
def test_what_is_too_much(
    task: Task, found: TaskCheck, int8: bool, tolerance: float | None, said: str | None
) -> None:
    told = problem(found, task, int8=int8, tolerance=tolerance)
    assert (told is None) if said is None else (told is not None and said in told)


def test_without_a_run_or_rows_built_in_sentences_are_compared(
    model: Model, one_thread: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.save(tmp_path / "alone", tasks=["alike"])
    told = export(tmp_path / "alone", "onnx")
    assert told["folder"] == str(tmp_path / "alone-onnx")
    assert told["checked_on"].startswith("built-in sentences")
    assert told["tasks"]["alike"]["score_before"] is None
    assert told["tasks"]["alike"]["rows"] == len(checks.built_in_rows(model.tasks["alike"]))


def test_an_exported_model_is_evaluated_and_saved_but_not_cut_or_joined(
    exported: Model, written: tuple[Path, dict[str, Any]], model: Model, tiny: Path, tmp_path: Path
) -> None:
    scored = api.evaluate(written[0], task="mood", data=tiny / "mood-dev.tsv")["tasks"]["mood"]
    assert scored["score"] == pytest.approx(written[1]["tasks"]["mood"]["score_after"], abs=1e-6)
    exported.save(tmp_path / "again")
    assert load(tmp_path / "again").predict("mood", TEXTS) == exported.predict("mood", TEXTS)
    with pytest.raises(ModelError, match="keeps all its tasks"):
        exported.save(tmp_path / "part", tasks=["mood"])
    for first, second in ((exported, model), (model, exported)):
        with pytest.raises(ModelError, match="join"):
            first.adopt(second)
    with pytest.raises(ModelError, match="no torch network"):
        exported.network  # noqa: B018 (the property raises)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"to": "onyx"}, "--to should be one of onnx, huggingface. Found 'onyx'; did you mean 'onnx'"),
        ({"to": "huggingface", "int8": True}, "--int8 belongs to --to onnx"),
        ({"to": "onnx", "task": "mood"}, "--data, which is missing"),
        ({"to": "onnx", "data": "x.tsv"}, "name it with --task"),
        ({"to": "onnx", "out": "."}, "is there already"),
    ],
)
def test_a_wrong_use_is_refused_before_the_work(
    trained: Path, one_thread: None, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    to, out = options["to"], tmp_path / "nowhere" / "yet"
    with pytest.raises(UserError, match=said):
        export(trained, to, **{"out": out, **{key: value for key, value in options.items() if key != "to"}})
    assert not out.parent.exists()


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("model.onnx", b"", "SHA-256"),
        ("model.onnx", None, "cannot be read"),
        ("config.json", b"{}", "not written by polytask"),
    ],
)
def test_a_damaged_export_is_named(
    written: tuple[Path, dict[str, Any]], tmp_path: Path, name: str, damage: bytes | None, said: str
) -> None:
    load(written[0]).save(tmp_path / "copy")
    (tmp_path / "copy" / name).unlink()
    if damage is not None:
        (tmp_path / "copy" / name).write_bytes(damage)
    with pytest.raises(ModelError, match=said):
        load(tmp_path / "copy")
