"""Conflict between tasks is measured, told and judged truthfully, through the whole training loop."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from observed import read_events
from tiny_project import load_recipe

from polytask import api
from polytask.recipe import Recipe
from polytask.train.conflict import measure
from polytask.train.gradients import Combined

LOOK = ("phases.0.sampler=joint", "phases.0.conflict_every=2", "phases.0.epochs=1", "dropout=0")


def conflicts(run: Path) -> list[dict[str, Any]]:
    return [event for event in read_events(run) if event["event"] == "conflict"]


def two_moods(project: Path, *, opposed: bool, combine: str) -> Recipe:
    """Two tasks on the same texts, with the same labels or opposed ones, and heads that start equal."""
    for split in ("train", "dev"):
        text = (project / f"mood-{split}.tsv").read_text(encoding="utf-8")
        if opposed:
            text = text.replace("negative", "-").replace("positive", "negative").replace("-", "positive")
        (project / f"twin-{split}.tsv").write_text(text, encoding="utf-8")
    recipe = load_recipe(project, *LOOK, f"phases.0.combine={combine}", "phases.0.lr=1e-9")
    mood = recipe.tasks["mood"].model_copy(update={"dropout": 0.0})
    twin = mood.model_copy(update={"train": "twin-train.tsv", "dev": "twin-dev.tsv"})
    return recipe.changed(tasks={"mood": mood, "twin": twin})


@pytest.mark.parametrize("mode", ["fast", "lean"])
@pytest.mark.parametrize(("opposed", "cosine"), [(False, 1.0), (True, -1.0)])
def test_identical_tasks_have_a_cosine_of_1_and_opposed_ones_of_minus_1(
    project: Path, monkeypatch: pytest.MonkeyPatch, opposed: bool, cosine: float, mode: str
) -> None:
    from polytask.data.batches import BatchStream
    from polytask.model.multitask import MultitaskModel

    begin = BatchStream.__init__

    def same_rows(stream: BatchStream, task: str, *given: Any) -> None:
        begin(stream, "mood", *given)

    build = MultitaskModel.__init__

    def same_heads(model: MultitaskModel, *given: Any) -> None:
        """Heads whose answers are all but even: wrong and right answers then have the same slope."""
        build(model, *given)
        first, second = model.heads.values()
        second.load_state_dict(first.state_dict())
        for head in (first, second):
            linear = [part for part in head.modules() if isinstance(part, torch.nn.Linear)][-1]
            with torch.no_grad():
                linear.weight.mul_(1e-4)
                linear.weight[1] = -linear.weight[0]
                linear.bias.zero_()

    monkeypatch.setattr(BatchStream, "__init__", same_rows)
    monkeypatch.setattr(MultitaskModel, "__init__", same_heads)
    recipe = two_moods(project, opposed=opposed, combine=f'{{kind="upgrad", mode="{mode}"}}')
    api.train(recipe, project / "run")
    seen = conflicts(project / "run")
    assert [event["update"] for event in seen] == [1, 3, 5]
    for event in seen:
        assert event["tasks"] == ["mood", "twin"]
        assert event["cosines"] == pytest.approx([cosine], abs=2e-4)
        if not opposed:
            assert event["change"] == pytest.approx(0.0, abs=1e-3)
        assert event["pairs_in_conflict"] == float(opposed)
        assert event["norms"][0] > 0
        assert set(event["layers"]) == {"embeddings", "layers.0", "layers.1"}
    scores = json.loads((project / "run" / "scores.json").read_text())
    assert scores["conflict"]["looks"] == 3
    assert f"{float(opposed):.0%} of the pairs" in scores["conflict"]["verdict"]


def test_an_event_holds_what_the_gradients_say() -> None:
    rows = [torch.tensor([[1.0, 0.0], [-1.0, 1.0]]).double(), torch.tensor([[2.0, 0.0], [2.0, 0.0]]).double()]
    grams = torch.stack([part @ part.T for part in rows])
    names = ("encoder.embeddings.norm.weight", "encoder.layers.3.up.weight")
    weights = torch.tensor([[1.0, 0.5]]).double()
    found = measure(Combined((0, 2), names, (2, 2), grams, (0, 0), weights), ["a", "c"])
    total = torch.cat(rows, dim=1)
    combined = weights[0] @ total
    assert found["cosines"] == [round(float(3 / (5**0.5 * 6**0.5)), 4)]
    assert found["layers"] == {"embeddings": [round(-(0.5**0.5), 4)], "layers.3": [1.0]}
    assert found["tensors_in_conflict"] == 0.5
    assert found["pairs_in_conflict"] == 0.0
    plain = total.sum(dim=0)
    assert found["norm_ratio"] == pytest.approx(float(combined.norm() / plain.norm()), abs=1e-4)
    assert found["change"] == pytest.approx(float((combined - plain).norm() / plain.norm()), abs=1e-4)
    assert found["weights"] == [1.0, 0.5]


def test_a_gradient_that_is_no_number_has_no_event() -> None:
    grams = torch.full((1, 2, 2), float("nan"), dtype=torch.float64)
    assert measure(Combined((0, 1), ("x.y",), (1,), grams, (0,), torch.ones(1, 2)), ["a", "b"]) == {}


def test_the_verdict_finds_the_run_with_a_plain_sum_and_says_when_there_is_none(project: Path) -> None:
    def verdict(out: str, combine: str, *changes: str) -> str:
        recipe = load_recipe(project, *LOOK, f"phases.0.combine={combine}", *changes)
        return str(api.train(recipe, project / "runs" / out).scores["conflict"]["verdict"])

    assert "whether it helped is not known" in verdict("first", "pcgrad")
    assert "moved the update" not in verdict("plain", "sum")
    assert "with a plain sum (plain) the dev mean is" in verdict("second", "pcgrad")
    assert "is not known" in verdict("another", "pcgrad", "seed=9")
    shutil.rmtree(project / "runs" / "plain" / "model")
    (project / "runs" / "plain" / "scores.json").write_text("{", encoding="utf-8")
    assert "is not known" in verdict("third", "pcgrad")


def test_conflict_every_0_never_looks(project: Path) -> None:
    run = api.train(load_recipe(project, *LOOK, "phases.0.conflict_every=0"), project / "run")
    assert conflicts(project / "run") == []
    assert "conflict" not in run.scores


def test_looking_changes_nothing_of_a_plain_sum_but_rounding(project: Path) -> None:
    looked = api.train(load_recipe(project, *LOOK), project / "looked")
    blind = api.train(load_recipe(project, *LOOK, "phases.0.conflict_every=0"), project / "blind")
    assert looked.scores["mean"] == pytest.approx(blind.scores["mean"], abs=1e-3)
