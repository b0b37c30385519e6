"""A recipe says everything, names every mistake at once, and comes back from TOML as it went."""

import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polytask.errors import RecipeError
from polytask.recipe import Recipe

ONE_TASK = {"tasks": {"sst": {"train": "train.csv"}}}


def phase(**values: Any) -> Any:
    return Recipe.from_dict({**ONE_TASK, "phases": [values]}).phases[0]


def mistakes(values: dict[str, Any]) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        Recipe.from_dict(values)
    return str(caught.value).splitlines()


def test_everything_but_the_tasks_files_has_a_default() -> None:
    recipe = Recipe.from_dict(ONE_TASK)
    task = recipe.tasks["sst"]
    assert (recipe.encoder, recipe.max_length, recipe.pairs, recipe.seed) == ("minilm", 128, "joined", 1)
    assert (task.kind, task.text, task.label, task.pooling) == (
        "classification",
        ("text",),
        ("label",),
        "mean",
    )
    assert len(recipe.phases) == 1
    assert recipe.phases[0].train == ("all",)
    assert recipe.phases[0].sampler.kind == "annealed"
    assert recipe.phases[0].combine.kind == "sum"


def test_the_learning_rate_follows_what_is_trained_unless_it_is_given() -> None:
    assert phase(train="heads").lr > 10 * phase(train="all").lr
    assert phase().lr == phase(train="top-2").lr == 5e-5
    assert phase(train="heads", lr=0.5).lr == 0.5


def test_a_word_stands_for_a_table_and_for_a_list_of_one() -> None:
    assert phase(sampler="joint") == phase(sampler={"kind": "joint"})
    task = Recipe.from_dict({"tasks": {"a": {"train": "x.csv", "text": "t", "labels": [0, 1]}}}).tasks["a"]
    assert task.text == ("t",)
    assert task.labels == {"0": "0", "1": "1"}


def test_every_mistake_is_named_at_once_with_its_key() -> None:
    found = mistakes(
        {
            "max_lenght": 3,
            "seed": -1,
            "tasks": {"sst": {"metric": "acuracy"}},
            "phases": [{"lr": "high", "epochs": 0}, {"combine": "summ"}],
        }
    )
    keys = ["seed", "tasks.sst.train", "tasks.sst.metric", "phases.0.lr", "phases.0.epochs"]
    for key in [*keys, "phases.1.combine.kind", "max_lenght"]:
        assert sum(line.startswith(f"{key} ") for line in found) == 1, key
    assert len(found) == 7


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        ({**ONE_TASK, "max_lenght": 3}, "Did you mean 'max_length'?"),
        ({"tasks": {"a": {"train": "x", "metrik": "f1"}}}, "Did you mean 'metric'?"),
        ({"tasks": {"a": {"train": "x", "metric": "acuracy"}}}, "did you mean 'accuracy'?"),
        ({**ONE_TASK, "phases": [{"batchsize": 3}]}, "Did you mean 'batch_size'?"),
        ({**ONE_TASK, "phases": [{"sampler": "anealed"}]}, "did you mean 'annealed'?"),
        ({**ONE_TASK, "phases": [{"tasks": ["sts"]}]}, "did you mean 'sst'?"),
    ],
)
def test_the_nearest_word_is_suggested(values: dict[str, Any], hint: str) -> None:
    assert mistakes(values)[0].endswith(hint)


@pytest.mark.parametrize(
    ("task", "part"),
    [
        ({"metric": "pearson"}, "metric should be one of"),
        ({"kind": "regression", "labels": ["a", "b"]}, "labels belong to classification"),
        ({"range": [0, 1]}, "range belongs to regression"),
        ({"kind": "regression", "range": [1, 0]}, "the smaller first"),
        ({"label": ["a", "b"]}, "label should be one column"),
        ({"labels": ["a"]}, "at least two classes"),
        ({"text": ["a", "b", "c"]}, "at most 2 items"),
        ({"text": []}, "at least 1 item"),
    ],
)
def test_what_does_not_go_together_in_a_task_is_refused(task: dict[str, Any], part: str) -> None:
    (line,) = mistakes({"tasks": {"a": {"train": "x.csv", **task}}})
    assert line.startswith("tasks.a.")
    assert part in line


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "-a", "ä", "a" * 65, "a.csv"])
def test_a_task_name_that_could_not_name_a_file_is_refused(name: str) -> None:
    (line,) = mistakes({"tasks": {name: {"train": "x.csv"}}})
    assert "a task name should be letters" in line


@pytest.mark.parametrize(("tasks", "part"), [([], "at least 1 item"), (["sst", "sst"], "each task once")])
def test_a_phase_names_some_tasks_and_each_once(tasks: list[str], part: str) -> None:
    (line,) = mistakes({**ONE_TASK, "phases": [{"tasks": tasks}]})
    assert line.startswith("phases.0.tasks ")
    assert part in line


def test_adapters_cannot_be_trained_where_there_are_none() -> None:
    (line,) = mistakes({**ONE_TASK, "phases": [{"train": "adapters"}]})
    assert line.startswith("phases.0.train is 'adapters'")


def test_messages_speak_of_tables_and_lists() -> None:
    found = "\n".join(mistakes({"tasks": {"a": {"train": 3, "text": 3}}, "phases": [3], "encoder": 1}))
    for word in ("Tuple", "tuple", "Dictionary", "dictionary", "PhaseRecipe", "Input", "valid string"):
        assert word not in found
    assert "phases.0 should be a table. Found 3." in found


def test_paths_start_from_the_recipes_folder_and_runs_are_called_after_its_file(tmp_path: Path) -> None:
    (tmp_path / "three-tasks.toml").write_text('\ufeff[tasks.a]\ntrain = "x.csv"\n', encoding="utf-8")
    recipe = Recipe.load(tmp_path / "three-tasks.toml")
    assert recipe.base == tmp_path.resolve()
    assert recipe.name == "three-tasks"


def test_a_value_never_changes() -> None:
    recipe = Recipe.from_dict(ONE_TASK)
    with pytest.raises(ValueError, match="frozen"):
        recipe.seed = 3  # type: ignore[misc]
    assert recipe.changed(seed=3).seed == 3
    assert recipe.changed(seed=3).base == recipe.base


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,10}", fullmatch=True)
COLUMNS = st.text(min_size=1, max_size=8)
FILES = st.text(min_size=1, max_size=12)
CLASSIFICATION = st.fixed_dictionaries(
    {"train": FILES},
    optional={
        "dev": FILES,
        "text": COLUMNS | st.lists(COLUMNS, min_size=1, max_size=2),
        "label": COLUMNS,
        "labels": st.lists(COLUMNS, min_size=2, max_size=4, unique=True),
        "metric": st.sampled_from(["accuracy", "f1", "f1_macro", "matthews"]),
        "dropout": st.floats(0, 0.99),
        "pooling": st.sampled_from(["cls", "mean", "attention"]),
    },
)
REGRESSION = st.fixed_dictionaries(
    {"train": FILES, "kind": st.just("regression")},
    optional={"range": st.tuples(st.floats(-9, 0), st.floats(1, 9)).map(list)},
)
PHASES = st.fixed_dictionaries(
    {},
    optional={
        "train": st.sampled_from(["all", "heads", "top-1", "top-12"]),
        "epochs": st.integers(1, 50),
        "steps_per_epoch": st.integers(1, 50),
        "lr": st.floats(1e-12, 1),
        "clip": st.floats(0, 100),
        "sampler": st.sampled_from(["round_robin", "proportional", "annealed", "joint"]),
        "schedule": st.sampled_from(["linear", "constant"]),
    },
)
RECIPES = st.fixed_dictionaries(
    {"tasks": st.dictionaries(NAMES, CLASSIFICATION | REGRESSION, min_size=1, max_size=3)},
    optional={
        "encoder": FILES,
        "seed": st.integers(0, 2**63 - 1),
        "threads": st.integers(1, 64),
        "pairs": st.sampled_from(["joined", "separate"]),
        "phases": st.lists(PHASES, min_size=1, max_size=3),
    },
)


@given(RECIPES)
def test_a_recipe_comes_back_from_toml_as_it_went(values: dict[str, Any]) -> None:
    recipe = Recipe.from_dict(values)
    written = recipe.to_toml()
    again = Recipe.from_dict(tomllib.loads(written))
    assert again == recipe
    assert again.to_toml() == written


@given(
    RECIPES, st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none(), max_size=3)
)
def test_strange_keys_and_values_end_in_nothing_but_a_recipe_error(
    values: dict[str, Any], strange: dict[str, Any]
) -> None:
    for phases in ([strange], strange, [*values.get("phases", []), None]):
        with suppress(RecipeError):
            Recipe.from_dict({**values, "phases": phases, **strange})
    for task in (strange, {"train": "x", **strange}, None):
        with suppress(RecipeError):
            Recipe.from_dict({"tasks": {"a": task}})
