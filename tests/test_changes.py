"""`--set` lays values over a recipe, in the forms a command line allows."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polytask.changes import apply_changes
from polytask.errors import RecipeError


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("seed=3", {"seed": 3}),
        ("seed = 3", {"seed": 3}),
        ("phases.0.lr=1e-4", {"phases": [{"lr": 1e-4}]}),
        ("encoder=minilm", {"encoder": "minilm"}),
        ('encoder="a=b"', {"encoder": "a=b"}),
        ("encoder=a=b", {"encoder": "a=b"}),
        ("encoder=", {"encoder": ""}),
        ("tasks.a.text=['x', 'y']", {"tasks": {"a": {"text": ["x", "y"]}}}),
        ("phases.0.sampler={kind = 'joint'}", {"phases": [{"sampler": {"kind": "joint"}}]}),
        ("deep=true", {"deep": True}),
    ],
)
def test_a_change_is_a_path_and_a_toml_value_or_a_bare_word(change: str, expected: dict[str, Any]) -> None:
    assert apply_changes({}, [change]) == expected


def test_changes_add_up_and_the_last_one_counts() -> None:
    given = {"phases": [{"lr": 1.0, "epochs": 2}], "seed": 1}
    changed = apply_changes(given, ["phases.0.lr=2", "phases.1.lr=3", "phases.0.lr=4"])
    assert changed == {"phases": [{"lr": 4, "epochs": 2}, {"lr": 3}], "seed": 1}
    assert given == {"phases": [{"lr": 1.0, "epochs": 2}], "seed": 1}


@pytest.mark.parametrize(
    "change",
    ["seed", "=3", " =3", "phases.2.lr=1", "phases.x.lr=1", "phases.-1.lr=1", "seed.x=1", ""],
)
def test_a_change_that_has_no_place_is_refused(change: str) -> None:
    with pytest.raises(RecipeError, match="--set"):
        apply_changes({"phases": [{}], "seed": 1}, [change])


def test_a_line_break_brings_in_no_second_key() -> None:
    assert apply_changes({}, ["lr=1\nseed=7"]) == {"lr": "1\nseed=7"}


@given(st.text(max_size=20))
def test_any_text_gives_a_value_or_a_recipe_error(change: str) -> None:
    try:
        apply_changes({"phases": [{}], "seed": 1}, [change])
    except RecipeError:
        return
    assert "=" in change
