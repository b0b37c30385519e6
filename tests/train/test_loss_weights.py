"""Loss weights are their papers' formulas, their state survives a checkpoint, and an undrawn task's stays."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polytask.choices import HeadRecipe
from polytask.recipe_phases import PhaseRecipe
from polytask.tasks import Task
from polytask.train.loss_weights import LossWeights
from polytask.train.optimizer import build_optimizer
from polytask.update_choices import LossWeightsRecipe

CLASSES = Task("a", "classification", 1, ("no", "yes"), None, "accuracy")
TASKS = {
    "a": CLASSES,
    "b": Task("b", "regression", 2, (), (0.0, 5.0), "pearson"),
    "c": replace(CLASSES, name="c", pairs="separate", head=HeadRecipe(kind="cosine")),
}
HISTORY = torch.rand(5, 4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 0.1


def weights_of(kind: str, **options: Any) -> LossWeights:
    return LossWeights(LossWeightsRecipe.model_validate({"kind": kind, **options}), TASKS)


def weigh_all(weights: LossWeights, losses: Tensor) -> list[float]:
    """The weighted losses of one update that draws every task once."""
    return [float(weights.weigh(task, loss, 1.0).detach()) for task, loss in enumerate(losses)]


def test_without_weights_a_part_counts_by_its_share_of_the_rows() -> None:
    assert float(weights_of("none").weigh(1, torch.tensor(3.0), 0.25)) == 0.75


def test_fixed_weights_are_those_given() -> None:
    weights = weights_of("fixed", weights={"c": 0.5, "a": 2, "b": 0})
    assert weigh_all(weights, torch.tensor([1.0, 3.0, 5.0])) == [2.0, 0.0, 2.5]
    assert weights.shown(list(TASKS)) == {"a": 2.0, "b": 0.0, "c": 0.5}


def test_uncertainty_is_kendalls_likelihood_with_learned_variances() -> None:
    weights = weights_of("uncertainty")
    with torch.no_grad():
        for parameter, value in zip(weights.log_variance, (0.3, -0.7, 0.1), strict=True):
            parameter.fill_(value)
    losses = torch.tensor([0.9, 1.7, 0.4], requires_grad=True)
    total = sum((weights.weigh(task, losses[task], 1.0) for task in range(3)), torch.tensor(0.0))
    # sigma^2 = e^s: L / sigma^2 + log sigma of a softmax, L / (2 sigma^2) + log sigma of squared errors
    variance = torch.tensor([0.3, -0.7, 0.1]).exp()
    halves = torch.tensor([1.0, 0.5, 0.5])
    expected = (halves * losses.detach() / variance + variance.sqrt().log()).sum()
    assert float(total.detach()) == pytest.approx(float(expected), abs=1e-6)
    total.backward()  # type: ignore[no-untyped-call]
    assert losses.grad is not None
    assert torch.allclose(losses.grad, halves / variance)
    slopes = torch.stack([p.grad for p in weights.log_variance if p.grad is not None])
    assert torch.allclose(slopes, 0.5 - halves * losses.detach() / variance, atol=1e-6)


def test_the_variance_of_a_task_that_is_not_drawn_is_not_moved() -> None:
    weights = weights_of("uncertainty", lr=0.1)
    learned = [(parameter, weights.lr) for parameter in weights.parameters()]
    optimizer = build_optimizer({"heads.x": nn.Parameter(torch.ones(2))}, PhaseRecipe(lr=0.1), 0, learned)
    for drawn in ((0, 1, 2), (0, 2), (0,)):
        before = [float(parameter.detach()) for parameter in weights.log_variance]
        torch.stack([weights.weigh(task, torch.tensor(2.0), 1.0) for task in drawn]).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        moved = [float(p.detach()) != old for p, old in zip(weights.log_variance, before, strict=True)]
        assert moved == [task in drawn for task in range(3)]


def test_dwa_is_a_softmax_of_the_last_two_epochs_mean_losses() -> None:
    weights, temperature = weights_of("dwa", temperature=1.5), 1.5
    means: list[Tensor] = []
    for epoch in HISTORY:
        if len(means) < 2:
            expected = torch.ones(3, dtype=torch.float64)
        else:
            expected = 3 * (means[-1] / means[-2] / temperature).softmax(0)
        for losses in epoch:
            assert weigh_all(weights, losses) == pytest.approx((expected * losses).tolist(), abs=1e-12)
            weights.end_update()
        weights.end_epoch()
        means.append(epoch.mean(dim=0))


def test_dwa_gives_a_task_of_unknown_course_the_mean_course() -> None:
    weights = weights_of("dwa")
    for losses in ((2.0, 2.0), (1.0, 1.6)):  # the third task is not drawn
        for task, loss in enumerate(losses):
            weights.weigh(task, torch.tensor(loss), 1.0)
        weights.end_update()
        weights.end_epoch()
    ratio = torch.tensor([0.5, 0.8, 0.65], dtype=torch.float64)
    assert torch.allclose(weights.weights, 3 * (ratio / 2).softmax(0), atol=1e-7)


def test_initial_divides_by_each_tasks_first_loss_whenever_it_comes() -> None:
    weights = weights_of("initial")
    assert float(weights.weigh(1, torch.tensor(4.0), 1.0)) == 1.0
    weights.end_update()
    assert float(weights.weigh(1, torch.tensor(2.0), 1.0)) == 0.5
    assert float(weights.weigh(0, torch.tensor(0.5), 1.0)) == 1.0
    weights.end_update()
    assert weigh_all(weights, torch.tensor([0.25, 1.0, 8.0])) == [0.5, 0.25, 1.0]


def test_famo_follows_its_authors_update() -> None:
    """Against FAMO with autograd and Adam: log D weighted by softmax(w), w by the fall of the log losses."""
    weights = weights_of("famo", lr=0.05, decay=0.01)
    logits = nn.Parameter(torch.zeros(3, dtype=torch.float64))
    adam = torch.optim.Adam([logits], lr=0.05, weight_decay=0.01)
    for before, after in zip(HISTORY.flatten(0, 1)[:-1], HISTORY.flatten(0, 1)[1:], strict=True):
        shares = logits.softmax(0).detach()
        constant = 1 / (shares / before).sum()
        expected = (constant * shares / before).tolist()
        found = []
        for task, loss in enumerate(before):
            leaf = loss.clone().requires_grad_()
            weights.weigh(task, leaf, 1.0).backward()  # type: ignore[no-untyped-call]
            assert leaf.grad is not None
            found.append(float(leaf.grad))
        factor = weights.common_factor()
        assert [factor * slope for slope in found] == pytest.approx(expected, abs=1e-9)
        weights.end_update(dict(enumerate(after.tolist())))
        logits.grad = torch.autograd.grad(logits.softmax(0), logits, before.log() - after.log())[0]
        adam.step()
        assert torch.allclose(weights.logits, logits.detach(), atol=1e-6)
    assert weights.logits.abs().max() > 0.1


def test_weights_follow_from_the_tasks_own_loss_and_multiply_the_whole_one() -> None:
    weights = weights_of("initial")
    assert float(weights.weigh(0, torch.tensor(6.0), 1.0, own=torch.tensor(2.0))) == 3.0


@pytest.mark.parametrize("kind", ["uncertainty", "dwa", "initial", "famo"])
def test_weights_that_were_put_away_go_on_as_if_they_had_not_been(kind: str) -> None:
    def run(weights: LossWeights, epochs: Tensor) -> list[float]:
        found = []
        for epoch in epochs:
            for losses in epoch:
                found += weigh_all(weights, losses)
                weights.end_update(dict(enumerate((losses * 0.9).tolist())) if kind == "famo" else None)
            weights.end_epoch()
        return found

    whole, first, second = weights_of(kind), weights_of(kind), weights_of(kind)
    with torch.no_grad():
        for parameter in (*whole.log_variance, *first.log_variance):
            parameter.fill_(0.4)
    expected = run(whole, HISTORY)
    begun = run(first, HISTORY[:3])
    second.load_state_dict(first.state_dict())
    assert begun + run(second, HISTORY[3:]) == expected
