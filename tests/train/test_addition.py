"""A task that comes later: what is trained, what stays, what is carried over and what is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from observed import assert_same_run, stop_at
from tiny_project import load_recipe

from polytask import api
from polytask.deploy.model import load
from polytask.errors import DataError, RecipeError, UserError
from polytask.model.folder import load_model
from polytask.train.memory import FOLDER
from polytask.train.merge import Mode
from polytask.train.state import TrainingError, TrainingStopped

TEXTS = ["the film is good", "a very awful song", "the book is fine"]
PAIRS = [("the film is good", "a very awful song"), ("the book is fine", "the song is great")]
NEW = """
{top}
[tasks.{name}]
train = "mood-train.tsv"
dev = "mood-dev.tsv"
{task}

[[phases]]
epochs = 2
steps_per_epoch = 5
batch_size = 8
{phase}
"""
Base = Callable[..., Path]


@pytest.fixture
def base(tiny: Path, shared_cache: Path, one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> Base:
    """A finished run of two tasks, of which the tests make none twice; to be read only."""

    def run(*changes: str) -> Path:
        folder = tmp_path_factory.getbasetemp() / f"base-{abs(hash(changes))}"
        if not folder.exists():
            short = ("phases.0.epochs=1", 'phases.0.tasks=["alike", "tags"]')
            recipe = load_recipe(tiny, *short, *changes)
            tasks = {name: recipe.tasks[name] for name in ("alike", "tags")}
            api.train(recipe.changed(tasks=tasks), folder)
        return folder

    return run


def write_new(
    folder: Path, *, name: str = "mood", top: str = "threads = 1", task: str = "", phase: str = ""
) -> Path:
    """A recipe of one new task, beside the tiny project's data."""
    path = folder / "new.toml"
    text = NEW.format(name=name, top=f'precision = "fp32"\n{top}', task=task, phase=phase)
    path.write_text(text, encoding="utf-8")
    return path


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def answers(run: Path) -> dict[str, Any]:
    return load(run, precision="fp32").predict({"alike": PAIRS, "tags": TEXTS})


@pytest.mark.parametrize(
    "changes",
    [(), ("adapter=pal", "phases.0.train=adapters"), ("adapter=lora",), ("adapter=top_layer",)],
    ids=["heads", "pal", "lora", "top"],
)
def test_mode_adapter_changes_no_old_answer_by_one_bit(
    project: Path, base: Base, tmp_path: Path, changes: tuple[str, ...]
) -> None:
    old = base(*changes)
    before = files_of(old)
    run = api.add_task(old, write_new(project), tmp_path / "run")
    assert answers(run.folder) == answers(old)
    assert files_of(old) == before
    earlier = json.loads((run.folder / "scores.json").read_bytes())["earlier_tasks"]
    assert {name: (item["changed_rows"], item["of"]) for name, item in earlier.items()} == {
        "alike": (0, "remembered rows"),
        "tags": (0, "remembered rows"),
    }
    assert (run.folder / "report.html").read_text(encoding="utf-8").count("bit for bit as before") == 2
    model = load(run.folder, precision="fp32")
    assert list(model.tasks) == ["alike", "tags", "mood"]
    assert model.predict("mood", TEXTS)[0]["label"] in ("negative", "positive")
    assert model.tasks["mood"].pooling == ("attention" if not changes else "mean")


def test_what_did_not_change_is_not_reported_as_forgotten(project: Path, base: Base, tmp_path: Path) -> None:
    new = write_new(project)
    new.write_text(new.read_text().replace('precision = "fp32"', ""), encoding="utf-8")  # the run's is taken
    first = api.add_task(base(), new, tmp_path / "first")
    new.write_text(new.read_text().replace("tasks.mood", "tasks.second"), encoding="utf-8")
    second = api.add_task(first.folder, new, tmp_path / "second")
    for run in (first, second):
        assert set(run.scores["transfer"]["forgetting"].values()) == {0.0}
    assert [stage["tasks"] for stage in second.scores["transfer"]["stages"]] == [
        ["alike", "tags"],
        ["mood"],
        ["second"],
    ]


def test_mode_adapter_gives_layers_to_a_model_that_has_none(
    project: Path, base: Base, tmp_path: Path
) -> None:
    run = api.add_task(base(), write_new(project, top='adapter = "pal"'), tmp_path / "run")
    assert answers(run.folder) == answers(base())
    network = load(run.folder, precision="fp32").network
    assert any(bool(p.any()) for p in network.adapter_parameters("mood") if p.ndim > 1)
    assert network.adapters_on


@pytest.mark.parametrize("mode", ["gem", "agem", "replay", "naive"])
def test_other_modes_train_the_encoder_on_and_say_what_changed(
    project: Path, base: Base, tmp_path: Path, mode: Mode
) -> None:
    old = base()
    before = files_of(old)
    run = api.add_task(old, write_new(project, phase="lr = 1e-3"), tmp_path / "run", mode=mode)
    assert files_of(old) == before
    assert all(item["changed_rows"] > 0 for item in run.scores["earlier_tasks"].values())
    stages = run.scores["transfer"]["stages"]
    assert [stage["tasks"] for stage in stages] == [["alike", "tags"], ["mood"]]
    assert set(run.scores["transfer"]["forgetting"]) == {"alike", "tags"}
    kept = {name: run.folder / FOLDER / f"{name}.jsonl" for name in ("alike", "tags", "mood")}
    assert all(path.is_file() for path in kept.values())
    assert kept["tags"].read_bytes() == (old / FOLDER / "tags.jsonl").read_bytes()
    losses = [
        json.loads(line)["losses"]
        for line in (run.folder / "events.jsonl").read_text().splitlines()
        if '"event": "update"' in line
    ]
    assert set(losses[-1]) == ({"mood"} if mode == "naive" else {"mood", "alike", "tags"})


def test_memory_stands_for_data_that_is_gone(project: Path, base: Base, tmp_path: Path) -> None:
    own = shutil.copytree(project, tmp_path / "own")
    recipe = load_recipe(own, "phases.0.epochs=1")
    tasks = {name: recipe.tasks[name] for name in ("alike", "tags")}
    old = api.train(recipe.changed(tasks=tasks), tmp_path / "old").folder
    shutil.rmtree(own)
    run = api.add_task(old, write_new(project, phase="lr = 1e-3"), tmp_path / "run", mode="gem")
    assert set(run.scores["tasks"]) == {"mood"}
    assert set(run.scores["earlier_tasks"]) == {"alike", "tags"}
    notes = (run.folder / "events.jsonl").read_text()
    assert "tags: has no dev rows here, so it is not scored" in notes
    assert set(api.evaluate(run.folder)["tasks"]) == {"mood"}
    again = api.add_task(run.folder, write_new(project, name="second"), tmp_path / "again")
    assert list(load(again.folder, precision="fp32").tasks) == ["alike", "tags", "mood", "second"]
    assert {item["changed_rows"] for item in again.scores["earlier_tasks"].values()} == {0}


def test_without_memory_or_dev_rows_fixed_texts_are_asked(project: Path, base: Base, tmp_path: Path) -> None:
    old = Path(shutil.copytree(base(), tmp_path / "old"))
    shutil.rmtree(old / FOLDER)
    run = api.add_task(old, write_new(project), tmp_path / "dev")
    assert {item["of"] for item in run.scores["earlier_tasks"].values()} == {"dev rows"}
    recipe = (old / "recipe.toml").read_text().replace("-dev.tsv", "-gone.tsv")
    (old / "recipe.toml").write_text(recipe)
    run = api.add_task(old, write_new(project), tmp_path / "texts")
    assert {item["of"] for item in run.scores["earlier_tasks"].values()} == {"fixed texts"}


def test_a_stopped_addition_goes_on_bit_for_bit(project: Path, base: Base, tmp_path: Path) -> None:
    new = write_new(project, phase="lr = 1e-3")
    whole = api.add_task(base(), new, tmp_path / "whole", mode="gem").folder
    stop = stop_at(lambda event: event["event"] == "checkpoint")
    with pytest.raises(TrainingStopped):
        api.add_task(base(), new, tmp_path / "run", mode="gem", listener=stop)
    api.add_task(base(), new, tmp_path / "run", mode="gem", resume=True)
    assert_same_run(tmp_path / "run", whole)
    assert files_of(tmp_path / "run" / FOLDER) == files_of(whole / FOLDER)


def test_an_answer_that_changed_is_not_passed_over(
    project: Path, base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disturb(*given: Any, **named: Any) -> Any:
        model, config = load_model(*given, **named)
        if given[0].parent.name == "run":
            next(model.encoder.layers.parameters()).data.view(-1)[0] += 1e-3
        return model, config

    monkeypatch.setattr("polytask.train.addition.load_model", disturb)
    with pytest.raises(TrainingError, match=r"bit for bit\. Those of alike, tags changed"):
        api.add_task(base(), write_new(project), tmp_path / "run")


@pytest.mark.parametrize(
    ("mode", "given", "said"),
    [
        (
            "adapter",
            {"name": "tags"},
            r"tasks\.tags: .* has a task 'tags' already, a multilabel\. Give the new",
        ),
        (
            "gem",
            {"name": "tags", "task": 'kind = "multilabel"\nlabel = "x"\nlabels = ["a", "b"]'},
            "already, whose labels are good, film and not a, b",
        ),
        ("gem", {"top": 'encoder = "another"'}, r"encoder should be that of .*, 'encoder', or be left out"),
        (
            "gem",
            {"top": "max_length = 20"},
            r"max_length should be that of .*, 24, or be left out\. Found 20",
        ),
        ("adapter", {"phase": 'train = "all"'}, "train should be 'heads' or 'adapters'.* Found all"),
        ("adapter", {"phase": 'memory = "gem"'}, "memory is 'gem', which does not go with --mode adapter"),
        ("gems", {}, "mode should be one of adapter, gem, .* Found 'gems'; did you mean 'gem'"),
        ("naive", {"top": 'adapter = { kind = "pal", flavour = "paper" }'}, "should be 'zero' where"),
    ],
)
def test_what_does_not_fit_is_refused(
    project: Path, base: Base, tmp_path: Path, mode: Mode, given: dict[str, str], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        api.add_task(base(), write_new(project, **given), tmp_path / "run", mode=mode)
    assert not (tmp_path / "run").exists()


def test_another_adapter_is_refused(project: Path, base: Base, tmp_path: Path) -> None:
    with pytest.raises(
        RecipeError, match=r"adapter should be that of .*, 'lora', or be left out\. Found 'pal'"
    ):
        api.add_task(base("adapter=lora"), write_new(project, top='adapter = "pal"'), tmp_path / "run")


def test_a_run_without_memory_cannot_rehearse(project: Path, base: Base, tmp_path: Path) -> None:
    old = base("phases.0.memory=none")
    with pytest.raises(UserError, match=r"--mode replay needs a memory .* It has none of alike, tags"):
        api.add_task(old, write_new(project), tmp_path / "run", mode="replay")


@pytest.mark.parametrize("mode", ["adapter", "gem"])
def test_a_changed_memory_is_refused(project: Path, base: Base, tmp_path: Path, mode: Mode) -> None:
    old = Path(shutil.copytree(base(), tmp_path / "old"))
    path = old / FOLDER / "tags.jsonl"
    path.write_bytes(path.read_bytes().replace(b"film", b"fylm", 1))
    with pytest.raises(DataError, match=r"tags\.jsonl: its SHA-256 is not the one"):
        api.add_task(old, write_new(project), tmp_path / "run", mode=mode)
    assert not (tmp_path / "run").exists()


def test_a_memory_with_other_labels_is_refused(project: Path, base: Base, tmp_path: Path) -> None:
    old = Path(shutil.copytree(base(), tmp_path / "old"))
    path = old / FOLDER / "manifest.json"
    path.write_text(path.read_text().replace('"good"', '"fine"'))
    with pytest.raises(DataError, match=r"same labels of task 'tags'\. Found fine, film and good, film"):
        api.add_task(old, write_new(project), tmp_path / "run", mode="gem")


def test_only_a_finished_run_can_be_added_to(project: Path, base: Base, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run folder"):
        api.add_task(base() / "model", write_new(project), tmp_path / "run")
    with pytest.raises(UserError, match="this folder is not empty"):
        api.add_task(base(), write_new(project), project)


def test_a_task_is_removed_and_the_others_answer_as_before(base: Base, tmp_path: Path) -> None:
    folder = api.remove_task(base("adapter=pal"), "alike", tmp_path / "less")
    assert load(folder, precision="fp32").predict("tags", TEXTS) == answers(base("adapter=pal"))["tags"]
    for task, out, said in (
        ("tags", tmp_path / "none", "is the model's only task"),
        ("alike", tmp_path / "none", "should be one of tags"),
    ):
        with pytest.raises(UserError, match=said):
            api.remove_task(folder, task, out)
    with pytest.raises(UserError, match="not empty"):
        api.remove_task(base("adapter=pal"), "tags", folder)
