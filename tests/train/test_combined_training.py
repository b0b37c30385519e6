"""Combiners in the whole training loop: every one trains, resumes and refuses what cannot be combined."""

from pathlib import Path
from typing import Any

import pytest
import torch
from observed import assert_same_run, last_checkpoint, observe, stop_at
from tiny_project import load_recipe
from torch import Tensor

from polytask import api
from polytask.errors import RecipeError
from polytask.train.gradients import GradientEngine
from polytask.train.state import TrainingError, TrainingStopped
from polytask.update_choices import COMBINE_OPTIONS, NOT_A_COMBINER

JOINT = "phases.0.sampler=joint"
COMBINERS = sorted(set(COMBINE_OPTIONS) - {"sum"})


@pytest.mark.parametrize("kind", COMBINERS)
def test_every_combiner_trains_the_encoder_and_every_head(
    kind: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mode = "" if kind == "mean" else ', scope="layer", mode="lean"'
    change = f'phases.0.combine={{kind="{kind}"{mode}}}'
    seen = observe(load_recipe(project, JOINT, change), project / "run", monkeypatch)
    matrices = {name for name in seen.before if name.endswith("weight") and ".pooler." not in name}
    assert matrices <= seen.moved() | {"encoder.embeddings.segments.weight"}
    assert all(bool(torch.isfinite(tensor).all()) for tensor in seen.after.values())
    losses = [loss for event in seen.named("update") for loss in event["losses"].values()]
    assert max(losses) < 10


@pytest.mark.parametrize("scope", ["whole", "layer"])
def test_vaccines_averages_are_in_the_checkpoint_and_a_resumed_run_is_the_same(
    scope: str, tiny: Path, one_thread: None, tmp_path: Path
) -> None:
    change = f'phases.0.combine={{kind="vaccine", beta=0.3, scope="{scope}"}}'
    recipe = load_recipe(tiny, 'phases.0.sampler={kind="random", draws=2}', change)
    api.train(recipe, tmp_path / "whole")
    with pytest.raises(TrainingStopped):
        api.train(recipe, tmp_path / "run", listener=stop_at(lambda event: event["event"] == "update"))
    kept = last_checkpoint(tmp_path / "run")["combiner.targets"]
    assert kept.shape == (1 if scope == "whole" else 4, 3, 3)  # two layers, embeddings, pooler
    assert kept.count_nonzero() > 0
    api.train(recipe, tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_a_gradient_that_is_not_finite_stops_the_run_and_names_the_task(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backward = GradientEngine.backward

    def broken(engine: GradientEngine, task: int, loss: Tensor) -> Any:
        return backward(engine, task, loss * float("inf") if task == 1 else loss)

    monkeypatch.setattr(GradientEngine, "backward", broken)
    with pytest.raises(TrainingError, match="task 'alike' is not finite at update 1"):
        api.train(load_recipe(project, JOINT, "phases.0.combine=upgrad"), project / "run")


@pytest.mark.parametrize("word", sorted(NOT_A_COMBINER))
def test_what_is_no_combiner_is_refused_by_name_with_the_reason(word: str, tiny: Path) -> None:
    with pytest.raises(RecipeError, match=f"'{word}' is none: {NOT_A_COMBINER[word][:20]}"):
        load_recipe(tiny, JOINT, f"phases.0.combine={word}")


def test_a_combiner_needs_a_sampler_that_draws_several_tasks(tiny: Path) -> None:
    with pytest.raises(RecipeError, match="leaves nothing to combine"):
        load_recipe(tiny, "phases.0.combine=pcgrad")
    load_recipe(tiny, "phases.0.combine=pcgrad", 'phases.0.sampler={kind="sqrt", draws=4}')
