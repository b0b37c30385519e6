"""Every shipped recipe trains: what it means to move moves, and what it means to freeze stays."""

import random
import tomllib
from pathlib import Path

import pytest
import torch
from glue_layout import write_glue
from tiny_project import write_project

from polytask.deploy.model import load
from polytask.model.locate import locate_encoder
from polytask.model.weights import encoder_tensors, load_encoder
from polytask.recipe import Recipe
from polytask.train.run import train_recipe

RECIPES = Path(__file__).parent.parent.parent / "recipes"
SHIPPED = sorted(RECIPES.rglob("*.toml"))
SHORT = ("epochs=1", "steps_per_epoch=3", "batch_size=4", "lr=1e-2")
WORDS = ["the", "good", "bad", "film", "song", "book"]
REHEARSALS = ("replay", "gem", "agem")
COLUMNS = {
    "ids-sst": ("\tid\tsentence\tsentiment", 1, 5),
    "ids-cfimdb": ("\tid\tsentence\tsentiment", 1, 2),
    "quora": ("\tid\tsentence1\tsentence2\tis_duplicate", 2, 2),
    "sts": ("\tid\tsentence1\tsentence2\tsimilarity", 2, 6),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder beside small files in the format and under the names of CS224N's and GLUE's."""
    folder = tmp_path_factory.mktemp("project")
    write_project(folder)
    source = random.Random(2)
    for stem, (header, texts, labels) in COLUMNS.items():
        for split in ("train", "dev", "test-student"):
            lines = [header]
            for row in range(12):
                sentences = [" ".join(source.choices(WORDS, k=5)) for _ in range(texts)]
                lines.append("\t".join([str(row), f"{stem}-{split}-{row}", *sentences, f"{row % labels}.0"]))
            (folder / f"{stem}-{split}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_glue(folder)
    return folder


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(RECIPES)))
def test_a_shipped_recipe_trains(
    path: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLYTASK_DATA", str(project))
    changes = [f"encoder={project / 'encoder'}", "max_length=24", "precision=fp32"]
    num_phases = len(tomllib.loads(path.read_text(encoding="utf-8"))["phases"])
    changes += [f"phases.{number}.{change}" for number in range(num_phases) for change in SHORT]
    if path.stem == "glue":  # each of its eight tasks should be drawn
        changes.append("phases.0.steps_per_epoch=40")
    changes += [f"phases.{number}.train=top-1" for number in _top_phases(path)]
    recipe = Recipe.load(path, changes)
    run = train_recipe(recipe, tmp_path / "run", resume=False, listener=lambda event: None)
    assert set(run.scores["tasks"]) == (set() if recipe.train_on_dev else set(recipe.tasks))

    model = load(tmp_path / "run", precision="fp32")
    before, _ = load_encoder(locate_encoder(recipe.encoder, project))
    now = encoder_tensors(model.network.encoder)
    unchanged = all(torch.equal(now[name], tensor) for name, tensor in encoder_tensors(before).items())
    best = run.scores["best"]["phase"] if "best" in run.scores else len(recipe.phases) - 1
    assert unchanged == all(phase.train == ("heads",) for phase in recipe.phases[: best + 1])
    if best < len(recipe.phases) - 1:
        return  # the best model is one from before the phase that trains the adapters
    for name in model.tasks:
        zero = [p for p in model.network.adapter_parameters(name) if not p.any() and p.ndim > 1]
        assert not zero, "an adapter's zero-initialised matrices are still zero"


def _top_phases(path: Path) -> list[int]:
    """The phases that train the upper half; the tiny encoder has but two layers."""
    phases = tomllib.loads(path.read_text(encoding="utf-8"))["phases"]
    return [number for number, phase in enumerate(phases) if phase.get("train") == "top-3"]


def test_every_preparation_has_a_recipe() -> None:
    tasks = [task for path in SHIPPED for task in Recipe.load(path).tasks.values()]
    assert {task.balance for task in tasks} == {"none", "repeat", "eda"}
    assert {task.augment.kind for task in tasks} == {"none", "eda"}
    assert any(task.join for task in tasks)
    assert any(Recipe.load(path).drop_longest for path in SHIPPED)
    assert any(Recipe.load(path).train_on_dev for path in SHIPPED)


def test_every_choice_has_a_recipe() -> None:
    from polytask.choices import ADAPTER_OPTIONS, HEAD_OPTIONS
    from polytask.update_choices import (
        AVERAGE_OPTIONS,
        COMBINE_OPTIONS,
        LOSS_WEIGHT_OPTIONS,
        SAMPLER_OPTIONS,
    )

    for folder, options in (
        ("samplers", SAMPLER_OPTIONS),
        ("loss_weights", LOSS_WEIGHT_OPTIONS),
        ("averages", AVERAGE_OPTIONS),
    ):
        chosen = {path.stem for path in (RECIPES / folder).glob("*.toml")}
        assert chosen >= set(options) - {"none"}, folder
    combiners = {path.stem for path in (RECIPES / "gradients").glob("*.toml")}
    assert combiners == (set(COMBINE_OPTIONS) - {"sum"}) | {"lean", "compromise", "compromise_force"}
    assert {path.stem for path in (RECIPES / "continual").glob("*.toml")} == {"naive", *REHEARSALS}
    assert {path.stem for path in (RECIPES / "adapters").glob("*.toml")} == set(ADAPTER_OPTIONS) - {"none"}
    assert {path.stem for path in (RECIPES / "heads").glob("*.toml")} == set(HEAD_OPTIONS) - {"linear"}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(RECIPES)))
def test_a_shipped_recipe_says_its_command(path: Path) -> None:
    assert f"polytask train recipes/{path.relative_to(RECIPES)}" in path.read_text(encoding="utf-8")
