"""What a phase chooses for its updates is checked when the recipe is read, with the key and the remedy."""

from typing import Any

import pytest

from polytask.errors import RecipeError
from polytask.recipe import Recipe

TASKS = {"a": {"train": "a.csv"}, "b": {"train": "b.csv"}}


def refused(**phase: Any) -> str:
    with pytest.raises(RecipeError) as caught:
        Recipe.from_dict({"tasks": TASKS, "phases": [phase]})
    return str(caught.value)


@pytest.mark.parametrize(
    ("phase", "said"),
    [
        ({"sampler": "power"}, "phases.0.sampler.power is missing"),
        ({"sampler": "temperature"}, "phases.0.sampler.temperature is missing"),
        ({"sampler": "weights"}, "phases.0.sampler.weights is missing"),
        ({"sampler": {"kind": "joint", "draws": 2}}, "draws is not an option of 'joint'"),
        ({"sampler": {"kind": "sqrt", "per": "step"}}, "per is not an option of 'sqrt'"),
        ({"sampler": {"kind": "weights", "weights": {"a": 0, "b": 0}}}, "should not all be 0"),
        ({"sampler": {"kind": "weights", "weights": {"a": 1}}}, "'b' is missing"),
        ({"sampler": {"kind": "weights", "weights": {"a": 1, "b": 1, "c": 1}}}, "Found 'c'"),
        ({"sampler": {"kind": "compromise", "draws": 1}}, "at least the phase's 2 tasks. Found 1"),
        ({"loss_weights": "fixed"}, "weights is missing"),
        ({"loss_weights": {"kind": "fixed", "weights": {"a": 1}}}, "phases.0.loss_weights.weights"),
        ({"loss_weights": {"kind": "dwa", "lr": 0.1}}, "lr is not an option of 'dwa'"),
        ({"loss_weights": "famo"}, "sampler should be one of joint, cycle, compromise"),
        ({"loss_weights": "famo", "sampler": "joint", "micro_batch": 4}, "micro_batch does not go with"),
        ({"average": {"kind": "mean", "decay": 0.9}}, "decay is not an option of 'mean'"),
        ({"average": {"kind": "ema", "decay": 1}}, "phases.0.average.decay"),
        ({"smart": {"radius": 0}}, "phases.0.smart.radius"),
        ({"smart": {"sigma": 1}}, "phases.0.smart.sigma is not a key"),
        ({"rdrop": -1}, "phases.0.rdrop"),
    ],
)
def test_what_does_not_go_together_is_refused_by_its_key(phase: dict[str, Any], said: str) -> None:
    assert said in refused(**phase)


def test_compromise_may_draw_as_many_as_there_are_tasks() -> None:
    phase = {"sampler": {"kind": "compromise", "draws": 2}}
    assert Recipe.from_dict({"tasks": TASKS, "phases": [phase]}).phases[0].sampler.draws == 2


def test_a_switch_is_a_table_of_defaults() -> None:
    written = [{"smart": True, "rdrop": True}, {"smart": False, "rdrop": False}, {"smart": {"radius": 0.1}}]
    on, off, table = Recipe.from_dict({"tasks": TASKS, "phases": written}).phases
    assert on.smart is not None
    assert (on.smart.noise, on.smart.step, on.smart.radius, on.rdrop) == (1e-5, 1e-3, 1e-3, 1.0)
    assert (off.smart, off.rdrop) == (None, 0.0)
    assert table.smart is not None
    assert (table.smart.radius, table.smart.weight) == (0.1, 1.0)


def test_choices_survive_the_way_to_toml_and_back() -> None:
    import tomllib

    phase = {
        "sampler": {"kind": "weights", "weights": {"a": 1, "b": 2}},
        "loss_weights": {"kind": "dwa", "temperature": 3.0},
        "average": "ema",
        "smart": True,
        "rdrop": 0.5,
    }
    recipe = Recipe.from_dict({"tasks": TASKS, "phases": [phase]})
    assert Recipe.from_dict(tomllib.loads(recipe.to_toml())).phases == recipe.phases
