"""A model folder answers as the run that wrote it did, in any company, and says what is wrong with it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polytask import api
from polytask.deploy.model import Model, load
from polytask.errors import ModelError, UserError

TEXTS = [
    "the film is good",
    "a",
    "the song is very awful x y z a b c d e f g h i j k l m n o p q r s t u v",
    "Zürich 😀",
]
PAIRS = [(first, second) for first in TEXTS for second in TEXTS]


@pytest.fixture
def model(trained: Path, one_thread: None) -> Model:
    return load(trained, precision="fp32")


@pytest.fixture
def copy(trained: Path, one_thread: None, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained / "model", tmp_path / "model"))


def test_each_kind_of_task_answers_in_its_form(model: Model) -> None:
    (mood,) = model.predict("mood", TEXTS[:1])
    assert set(mood) == {"label", "probabilities"}
    assert sum(mood["probabilities"].values()) == pytest.approx(1, abs=1e-6)
    assert mood["label"] == max(mood["probabilities"], key=mood["probabilities"].get)
    (alike,) = model.predict("alike", PAIRS[:1])
    assert set(alike) == {"value"}
    assert 0 <= alike["value"] <= 5
    (tags,) = model.predict("tags", TEXTS[:1])
    assert tags["labels"] == [name for name, value in tags["probabilities"].items() if value >= 0.5]


def test_several_tasks_are_asked_in_one_call(model: Model) -> None:
    found = model.predict({"mood": TEXTS, "alike": PAIRS})
    assert found == {"mood": model.predict("mood", TEXTS), "alike": model.predict("alike", PAIRS)}


def numbers(answer: dict[str, Any]) -> list[float]:
    return list(answer["probabilities"].values()) if "probabilities" in answer else [answer["value"]]


@pytest.mark.parametrize(("task", "rows"), [("mood", TEXTS), ("alike", PAIRS), ("tags", TEXTS)])
def test_the_company_of_a_row_does_not_change_its_answer(model: Model, task: str, rows: Any) -> None:
    together = model.predict(task, rows)
    backwards = model.predict(task, rows[::-1])[::-1]
    alone = [model.predict(task, [row])[0] for row in rows]
    for answers in (backwards, alone):
        for found, expected in zip(answers, together, strict=True):
            assert numbers(found) == pytest.approx(numbers(expected), abs=1e-5)


def test_nothing_asked_is_nothing_answered(model: Model) -> None:
    assert model.predict("mood", []) == []
    assert model.predict({}) == {}
    assert model.embed([]).shape == (0, 16)


def test_embeddings_are_a_row_a_text_in_their_order(model: Model) -> None:
    vectors = model.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), 16)
    assert vectors.dtype == np.float32
    for place, text in enumerate(TEXTS):
        assert np.allclose(model.embed([text])[0], vectors[place], atol=1e-5)
    assert not np.allclose(vectors[0], vectors[1], atol=1e-2)


def test_an_empty_text_and_one_far_too_long_are_answered(model: Model) -> None:
    empty, endless = model.predict("mood", ["", "good film " * 20_000])
    assert numbers(empty) != numbers(endless)
    (cut,) = model.predict("mood", ["good film " * 100])
    assert numbers(cut) == pytest.approx(numbers(endless), abs=1e-5)


@pytest.mark.parametrize(
    ("task", "texts", "said"),
    [
        ("mod", ["a"], "did you mean 'mood'"),
        ("mood", [("a", "b")], "each text should be a string. Found tuple"),
        ("mood", [None], "each text should be a string. Found NoneType"),
        ("mood", "good", "the texts should be a list"),
        ("alike", ["a"], "should be a pair"),
        ("alike", [("a", "b", "c")], "should be a pair"),
        ("alike", [("a", 3)], "should be a pair"),
        ("mood", None, "a task and its texts"),
    ],
)
def test_what_does_not_fit_a_task_is_refused_in_one_sentence(
    model: Model, task: str, texts: Any, said: str
) -> None:
    with pytest.raises(UserError, match=said):
        model.predict(task, texts)


def test_a_loaded_model_scores_its_run_as_scores_json_does(trained: Path, one_thread: None) -> None:
    written = json.loads((trained / "scores.json").read_text())
    found = api.evaluate(trained)
    for name, item in found["tasks"].items():
        assert item == {key: written["tasks"][name][key] for key in item}
    assert found["mean"] == written["mean"]
    assert found["tasks"].keys() == written["tasks"].keys()


def test_one_task_is_scored_on_a_labelled_file(trained: Path, tiny: Path, one_thread: None) -> None:
    found = api.evaluate(trained / "model", task="mood", data=tiny / "mood-dev.tsv")
    assert found["tasks"]["mood"] == api.evaluate(trained, task="mood")["tasks"]["mood"]
    assert found["tasks"]["mood"]["rows"] == 30


def test_the_folder_holds_data_alone_and_moves_anywhere(model: Model, copy: Path) -> None:
    names = sorted(path.name for path in copy.iterdir())
    assert names == ["README.md", "config.json", "model.safetensors", "tokenizer.json"]
    moved = load(copy, precision="fp32")
    assert moved.predict("alike", PAIRS) == model.predict("alike", PAIRS)
    assert {name: task.to_dict() for name, task in moved.tasks.items()} == {
        name: task.to_dict() for name, task in model.tasks.items()
    }
    assert "polytask" in (copy / "README.md").read_text()


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda config: config.update(format="other"), "not written by polytask"),
        (lambda config: config.update(version=99), "version should be"),
        (lambda config: config.pop("max_length"), "max_length is missing"),
        (lambda config: config.update(max_length="x"), "max_length should be a valid integer"),
        (lambda config: config.update(max_length=-3), "max_length should be greater than or equal to 4"),
        (lambda config: config.update(max_length=3000), "max_length should be at most 32"),
        (lambda config: config.pop("sources"), "sources is missing"),
        (lambda config: config.pop("tasks"), "tasks is missing"),
        (lambda config: config.update(tasks=[]), "tasks should be a table"),
        (lambda config: config["tasks"]["mood"].update(kind="classy"), "tasks.mood.kind should be one of"),
        (
            lambda config: config["tasks"]["mood"].update(pooling="most"),
            "tasks.mood.pooling should be one of",
        ),
        (lambda config: config["tasks"]["mood"].update(head={"kind": "x"}), "tasks.mood.head.kind should be"),
        (lambda config: config["tasks"]["mood"].update(labels=["a"]), "does not fit config.json"),
        (lambda config: config["tasks"].update({"../x": config["tasks"]["mood"]}), "not a task name"),
        (lambda config: config["encoder"].update(model_type="gpt2"), "gpt2"),
        (lambda config: config["encoder"].update(num_hidden_layers=3), "model.safetensors"),
        (lambda config: config["encoder"].update(hidden_size="x"), "config.json"),
        (lambda config: config.pop("encoder"), "config.json"),
    ],
)
def test_a_changed_description_is_refused_by_name(
    copy: Path, change: Callable[[dict[str, Any]], object], said: str
) -> None:
    rewrite(copy, change)
    with pytest.raises(ModelError, match=said):
        load(copy)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "noise"])
def test_a_missing_or_damaged_file_is_named(copy: Path, name: str, damage: str) -> None:
    path = copy / name
    content = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes({"empty": b"", "cut": content[: len(content) // 2], "noise": b"\xff" * 100}[damage])
    with pytest.raises(ModelError, match=name) as caught:
        load(copy)
    assert "\n" not in str(caught.value)


def test_another_folder_is_no_model_and_no_run(tiny: Path, tmp_path: Path) -> None:
    for folder, said in ((tmp_path, "no config.json"), (tiny / "encoder", "not written by polytask")):
        with pytest.raises(UserError, match=said):
            load(folder)
    with pytest.raises(UserError, match="no model folder or run folder"):
        load(tmp_path / "nowhere")


def test_a_run_that_was_killed_before_it_had_a_model_says_how_to_finish_it(
    trained: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(trained / "recipe.toml", run)
    with pytest.raises(ModelError, match=r"no model yet; .*--resume"):
        load(run)
