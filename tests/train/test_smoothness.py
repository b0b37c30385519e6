"""SMART and R-Drop are their formulas, within the radius, for every kind of task, head and adapter."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from polytask.batch import Batch, Tokens
from polytask.choices import ADAPTER_OPTIONS, HEAD_OPTIONS, AdapterRecipe, HeadRecipe
from polytask.model.compute import Compute
from polytask.model.dropout import Dropout
from polytask.model.encoder import Encoder, EncoderConfig
from polytask.model.multitask import MultitaskModel
from polytask.recipe_phases import PhaseRecipe
from polytask.tasks import Task, loss_per_row
from polytask.train.losses import DrawLoss
from polytask.train.smart import divergence, smart_term
from polytask.update_choices import SmartRecipe

CONFIG = EncoderConfig(
    architecture="bert", vocab_size=20, width=12, num_layers=2, num_heads=2, ffn_width=16, max_length=6
)
SENTENCE = Task("a", "classification", 1, ("no", "maybe", "yes"), None, "accuracy")
TASKS = {
    "classes": SENTENCE,
    "labels": Task("a", "multilabel", 1, ("x", "y"), None, "f1_macro"),
    "values": Task("a", "regression", 2, (), (0.0, 5.0), "pearson"),
    "separate": replace(SENTENCE, texts=2, pairs="separate"),
    "cosine": Task("a", "regression", 2, (), (0.0, 5.0), "pearson", "separate", HeadRecipe(kind="cosine")),
}


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def make(task: Task, adapter: str = "none") -> tuple[MultitaskModel, Batch]:
    """A model with every value random, and a batch of three rows."""
    model = MultitaskModel(
        Encoder(CONFIG), {"a": task}, torch.Generator(), AdapterRecipe.model_validate({"kind": adapter})
    )
    with torch.no_grad():
        for number, (name, parameter) in enumerate(model.named_parameters()):
            around = float("norm" in name and name.endswith("weight"))
            parameter.copy_(around + random(*parameter.shape, seed=number) * 0.2)
    rows = 6 if task.separate else 3
    ids = torch.randint(1, 20, (rows, 5), generator=torch.Generator().manual_seed(1))
    targets = {
        "classification": torch.tensor([0, 1, 1]),
        "multilabel": torch.tensor([[0, 1], [1, 1], [0, 0]]),
        "regression": torch.tensor([0.5, 4.0, 2.0]),
    }
    lengths = torch.tensor([5, 3, 4] * (rows // 3))
    return model, Batch(Tokens(ids, lengths), {"a": slice(0, rows)}, {"a": targets[task.kind]}, 12)


def draw_loss(model: MultitaskModel, dropout: float = 0.1, seed: int = 5, **phase: Any) -> DrawLoss:
    recipe = PhaseRecipe.model_validate({"lr": 0.1, **phase})
    compute = Compute(torch.device("cpu"), torch.float32)
    return DrawLoss(model, recipe, compute, dropout, torch.Generator().manual_seed(seed))


def both_ways(first: Tensor, second: Tensor) -> Tensor:
    """KL(p || q) + KL(q || p) of rows of probabilities, term by term."""
    return sum((p * (p / q).log()).sum(dim=-1) for p, q in ((first, second), (second, first))) / torch.tensor(
        1.0
    )


@pytest.mark.parametrize("kind", list(TASKS))
def test_the_divergence_is_the_papers(kind: str) -> None:
    task = TASKS[kind]
    one, other = random(4, max(1, task.num_outputs), seed=2), random(4, max(1, task.num_outputs), seed=3)
    match kind:
        case "classes" | "separate":
            expected = both_ways(one.softmax(1), other.softmax(1)).mean()
        case "labels":  # each label is a variable of its own: yes or no
            yes, again = one.sigmoid(), other.sigmoid()
            expected = (
                both_ways(torch.stack([yes, 1 - yes], -1), torch.stack([again, 1 - again], -1)).sum(1).mean()
            )
        case _:
            expected = (one - other).square().mean()
    assert float(divergence(task, one, other)) == pytest.approx(float(expected), rel=1e-5)
    assert float(divergence(task, one, one)) == 0


def naive_smart(recipe: SmartRecipe, answer: Callable[[Tensor | None], Tensor], noise: Tensor) -> Tensor:
    """The search for the worst noise, row by row and in plain steps, for three classes."""

    def apart(one: Tensor, other: Tensor) -> Tensor:
        return both_ways(one.softmax(1), other.softmax(1)).mean()

    found = recipe.noise * noise
    for _ in range(recipe.steps):
        found = found.detach().requires_grad_()
        (slope,) = torch.autograd.grad(apart(answer(found), answer(None).detach()), found)
        rows = []
        for row, of_row in zip(found.detach(), slope, strict=True):
            moved = row + recipe.step * of_row / of_row.abs().max()
            rows.append(
                torch.maximum(torch.minimum(moved, torch.tensor(recipe.radius)), torch.tensor(-recipe.radius))
            )
        found = torch.stack(rows)
    return apart(answer(found), answer(None))


@pytest.mark.parametrize("steps", [1, 3])
def test_smart_is_a_naive_search_for_the_worst_noise(steps: int) -> None:
    model, batch = make(SENTENCE)
    recipe = SmartRecipe(noise=1e-2, step=0.1, radius=0.15, steps=steps)
    dropout = Dropout(0.1, torch.Generator())

    def answer(noise: Tensor | None) -> Tensor:
        dropout.generator.manual_seed(3)
        found: Tensor = model(batch, dropout, 0, noise)["a"]
        return found

    noise = random(3, 5, 12)
    found = smart_term(recipe, SENTENCE, answer, noise)
    expected = naive_smart(recipe, answer, noise)
    assert float(found.detach()) == pytest.approx(float(expected.detach()), rel=1e-4)
    weights = dict(model.named_parameters())["encoder.layers.0.up.weight"]
    slope, naive_slope = (torch.autograd.grad(term, weights)[0] for term in (found, expected))
    assert torch.allclose(slope, naive_slope, rtol=1e-3, atol=1e-7)


def test_no_coordinate_of_the_noise_leaves_the_radius_and_some_reach_it() -> None:
    model, batch = make(SENTENCE)
    recipe, seen = SmartRecipe(noise=1e-5, step=1.0, radius=1e-3, steps=2), []

    def answer(noise: Tensor | None) -> Tensor:
        if noise is not None:
            seen.append(noise.detach())
        found: Tensor = model(batch, noise=noise)["a"]
        return found

    smart_term(recipe, SENTENCE, answer, random(3, 5, 12))
    assert len(seen) == 3
    assert seen[0].abs().max() < 1e-4
    for noise in seen[1:]:  # the published code's would be near 1
        assert noise.abs().amax(dim=(1, 2)).tolist() == pytest.approx([1e-3] * 3)


def test_noise_that_pushes_answers_apart_costs_more_than_noise_by_chance() -> None:
    model, batch = make(SENTENCE)

    def answer(noise: Tensor | None) -> Tensor:
        found: Tensor = model(batch, noise=noise)["a"]
        return found

    noise = random(3, 5, 12)
    by_chance = divergence(SENTENCE, answer(noise.sign() * 1e-3), answer(None))
    assert smart_term(SmartRecipe(step=1.0), SENTENCE, answer, noise) > 3 * by_chance


def test_r_drop_is_the_mean_loss_and_half_the_divergence_of_two_masks() -> None:
    model, batch = make(SENTENCE)
    loss, shown = draw_loss(model, rdrop=0.7)(SENTENCE, batch, 0)
    dropout = Dropout(0.1, torch.Generator().manual_seed(5))
    first, second = (model(batch, dropout)["a"] for _ in range(2))
    targets = batch.targets["a"]
    plain = (F.cross_entropy(first, targets) + F.cross_entropy(second, targets)) / 2
    expected = plain + 0.7 * both_ways(first.softmax(1), second.softmax(1)).mean() / 2
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    assert float(shown) == pytest.approx(float(F.cross_entropy(first, targets).detach()), rel=1e-6)
    assert not torch.allclose(first, second)


def test_without_dropout_r_drop_costs_nothing() -> None:
    task = replace(SENTENCE, dropout=0.0)
    model, batch = make(task)
    loss, shown = draw_loss(model, dropout=0.0, rdrop=1.0)(task, batch, 0)
    assert float(loss.detach()) == pytest.approx(float(shown), rel=1e-6)


def grown(task: Task, adapter: str, frozen_layers: int = 0) -> None:
    """Both terms make the loss larger, and their gradient reaches the task's own parts."""
    model, batch = make(task, adapter)
    plain, _ = draw_loss(model)(task, batch, frozen_layers)
    smart = {"noise": 1e-3, "step": 0.1, "radius": 0.1}
    for term in ({"smart": smart}, {"rdrop": 1.0}, {"smart": smart, "rdrop": 1.0}):
        loss, shown = draw_loss(model, **term)(task, batch, frozen_layers)
        assert float(shown) == pytest.approx(float(plain.detach()), rel=1e-5)
        if "smart" in term and "rdrop" not in term:
            assert loss > plain
        model.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        assert all(
            p.grad is not None and p.grad.isfinite().all()
            for p in model.own_parameters("a")
            if p.requires_grad
        )


@pytest.mark.parametrize(
    ("kind", "frozen_layers"),
    [(kind, frozen) for kind in TASKS for frozen in (0, 2, 3) if (kind, frozen) != ("cosine", 3)],
)
def test_both_terms_work_for_every_kind_of_task_and_with_frozen_layers(kind: str, frozen_layers: int) -> None:
    grown(TASKS[kind], "none", frozen_layers)


@pytest.mark.parametrize("head", [head for head in HEAD_OPTIONS if head != "cosine"])
@pytest.mark.parametrize("pooling", ["mean", "attention", "pooler"])
def test_both_terms_work_with_every_head(head: str, pooling: str) -> None:
    grown(replace(SENTENCE, head=HeadRecipe.model_validate({"kind": head}), pooling=pooling), "none")  # type: ignore[arg-type]


@pytest.mark.parametrize("adapter", list(ADAPTER_OPTIONS))
@pytest.mark.parametrize("kind", ["classes", "separate"])
def test_both_terms_work_with_every_adapter(adapter: str, kind: str) -> None:
    grown(TASKS[kind], adapter)


def test_a_smart_term_leaves_the_next_masks_as_they_would_come() -> None:
    model, batch = make(SENTENCE)
    losses = [draw_loss(model, smart=True), draw_loss(model, smart=True)]
    first = [float(loss(SENTENCE, batch, 0)[0].detach()) for loss in losses]
    second = [float(loss(SENTENCE, batch, 0)[0].detach()) for loss in losses]
    assert first[0] == first[1] != second[0] == second[1]
    assert float(loss_per_row(SENTENCE, model(batch)["a"], batch.targets["a"]).mean().detach()) != first[0]
