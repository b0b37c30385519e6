"""Models are cut apart and put together by task, and what belongs to a task goes along unchanged."""

from pathlib import Path

import pytest
import torch
from tiny_project import load_recipe

from polytask import api
from polytask.deploy.model import Model, load
from polytask.errors import ModelError, UserError

TEXTS = ["the film is good", "a very awful song"]
PAIRS = [("the film is good", "a very awful song")]
SHORT = ("phases.0.epochs=1", "phases.0.steps_per_epoch=4", "adapter=pal")


@pytest.fixture
def base(tiny: Path, one_thread: None, tmp_path: Path) -> Path:
    """A model of all three tasks with PALs, trained but for the encoder."""
    return api.train(load_recipe(tiny, *SHORT, "phases.0.train=adapters"), tmp_path / "base").folder


@pytest.fixture
def later(tiny: Path, one_thread: None, tmp_path: Path) -> Path:
    """The same encoder with other adapters and heads."""
    recipe = load_recipe(tiny, *SHORT, "phases.0.train=adapters", "seed=2")
    return api.train(recipe, tmp_path / "later").folder


@pytest.fixture
def model(base: Path) -> Model:
    return load(base, precision="fp32")


def test_a_model_of_some_tasks_answers_them_as_the_whole_one_does(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "part", tasks=["mood"])
    part = load(tmp_path / "part", precision="fp32")
    assert list(part.tasks) == ["mood"]
    assert part.predict("mood", TEXTS) == model.predict("mood", TEXTS)
    whole, small = (sum(p.numel() for p in m.network.parameters()) for m in (model, part))
    assert small == whole - sum(
        p.numel() for task in ("alike", "tags") for p in model.network.own_parameters(task)
    )


def test_a_saved_whole_model_is_the_same_file(model: Model, base: Path, tmp_path: Path) -> None:
    model.save(tmp_path / "again")
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        assert (tmp_path / "again" / name).read_bytes() == (base / "model" / name).read_bytes()


def test_a_task_of_another_run_on_the_same_encoder_joins_unchanged(
    model: Model, later: Path, tmp_path: Path
) -> None:
    model.save(tmp_path / "mood", tasks=["mood"])
    other = load(later, precision="fp32")
    joined = load(tmp_path / "mood", precision="fp32").adopt(other, ["alike", "tags"])
    assert joined.predict("mood", TEXTS) == model.predict("mood", TEXTS)
    assert joined.predict({"alike": PAIRS, "tags": TEXTS}) == other.predict({"alike": PAIRS, "tags": TEXTS})
    joined.save(tmp_path / "joined")
    assert load(tmp_path / "joined", precision="fp32").predict("alike", PAIRS) == other.predict(
        "alike", PAIRS
    )


def test_tasks_asked_of_the_same_list_go_through_the_encoder_once(
    tiny: Path, one_thread: None, tmp_path: Path
) -> None:
    api.train(load_recipe(tiny, "phases.0.epochs=1", "phases.0.steps_per_epoch=2"), tmp_path / "run")
    model = load(tmp_path / "run", precision="fp32")
    passes = []
    model.network.encoder.layers[0].register_forward_hook(lambda *_: passes.append(1))
    found = model.predict({"mood": TEXTS, "tags": TEXTS})
    assert len(passes) == 1
    assert found == {"mood": model.predict("mood", TEXTS), "tags": model.predict("tags", TEXTS)}


def test_what_does_not_fit_together_is_refused(model: Model, later: Path, tiny: Path, tmp_path: Path) -> None:
    other = load(later, precision="fp32")
    with pytest.raises(ModelError, match="has a task 'mood' already"):
        model.adopt(other)
    model.save(tmp_path / "mood", tasks=["mood"])
    mood = load(tmp_path / "mood", precision="fp32")
    with torch.no_grad():
        next(other.network.encoder.parameters())[0, 0] += 1
    with pytest.raises(
        ModelError, match=r"same encoder. Found that they differ in 'embeddings\.words\.weight'"
    ):
        mood.adopt(other, ["tags"])
    plain = tmp_path / "plain"
    api.train(load_recipe(tiny, *SHORT[:2], "phases.0.train=heads"), plain)
    with pytest.raises(ModelError, match="same task-specific layers"):
        mood.adopt(load(plain, precision="fp32"), ["tags"])
    with pytest.raises(UserError, match="Found 'moods'"):
        model.save(tmp_path / "none", tasks=["moods"])
    with pytest.raises(UserError, match="at least one task"):
        model.save(tmp_path / "none", tasks=[])
