"""What the documents say is true: recipes load, messages are the real ones, tables are complete."""

import re
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel
from tiny_project import load_recipe, write_project

from polytask.choices import ADAPTER_OPTIONS, HEAD_OPTIONS
from polytask.data.catalogue import KNOWN_SETS
from polytask.errors import RecipeError
from polytask.recipe import Recipe
from polytask.recipe_phases import PhaseRecipe
from polytask.recipe_tasks import TaskRecipe
from polytask.update_choices import COMBINE_OPTIONS, LOSS_WEIGHT_OPTIONS, MEMORY_OPTIONS, SAMPLER_OPTIONS

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
METHODS = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").glob("*.md")])


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found is not None
    return found[1]


def documented_keys(heading: str) -> set[str]:
    text = (ROOT / "docs" / "recipe.md").read_text(encoding="utf-8")
    section = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`[a-z_`, ]+`) \|", section, re.MULTILINE)
    return {key for cell in cells for key in re.findall(r"[a-z_]+", cell)}


def test_the_recipe_of_the_readme_is_valid() -> None:
    recipe = Recipe.from_dict(tomllib.loads(block("toml")))
    assert list(recipe.tasks) == ["intent", "duplicate", "urgency"]


def test_the_message_of_the_readme_is_the_real_one() -> None:
    with pytest.raises(RecipeError) as caught:
        Recipe.from_dict(tomllib.loads(block("toml")), changes=["tasks.urgency.metric=accuracy"])
    assert f"polytask: {caught.value}" in README


def test_the_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "support.toml").write_text(load_recipe(tmp_path).to_toml(), encoding="utf-8")
    code = block("python").replace('"intent"', '"mood"').replace('"urgency"', '"tags"')
    names: dict[str, object] = {"texts": ["good film", "bad song"]}
    exec(code, names)
    assert (tmp_path / "small" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("heading", "schema"),
    [("Top level", Recipe), ("`[tasks.NAME]`", TaskRecipe), ("`[[phases]]`", PhaseRecipe)],
)
def test_every_key_of_a_recipe_is_documented(heading: str, schema: type[BaseModel]) -> None:
    tables = {"tasks", "phases"} if schema is Recipe else set()
    assert documented_keys(heading) == set(schema.model_fields) - tables


def test_every_known_set_is_documented() -> None:
    text = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    assert [name for name in KNOWN_SETS if f"`{name}`" not in text] == []


def test_the_recipe_of_the_data_page_is_valid() -> None:
    text = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    assert list(Recipe.from_dict(tomllib.loads(text.split("```toml\n")[1].split("```")[0])).tasks) == [
        "own",
        "mnli",
        "faq",
    ]


def test_every_method_has_a_row() -> None:
    for word in [
        *ADAPTER_OPTIONS,
        *HEAD_OPTIONS,
        *SAMPLER_OPTIONS,
        *LOSS_WEIGHT_OPTIONS,
        *COMBINE_OPTIONS,
        *MEMORY_OPTIONS,
    ]:
        assert word == "none" or re.search(rf"^\| [^|]*`{word}`", METHODS, re.MULTILINE), word


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_inside_the_project_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target
