"""Smoothness terms: SMART's, against small changes of the input, and R-Drop's, between two dropout masks."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from polytask.tasks import Task
from polytask.update_choices import SmartRecipe

TINY = 1e-30


def divergence(task: Task, one: Tensor, other: Tensor) -> Tensor:
    """How far two sets of outputs [B, C] lie apart, a mean over rows.

    The symmetric Kullback-Leibler divergence of their probabilities; of values, the squared difference.
    """
    one, other = one.float(), other.float()
    if task.kind == "regression" or task.head.kind == "cosine":
        return F.mse_loss(one, other)
    if task.kind == "multilabel":
        # Of two Bernoulli variables with logits a and b it is (p_a - p_b)(a - b).
        return ((one.sigmoid() - other.sigmoid()) * (one - other)).sum(dim=1).mean()
    log_one, log_other = one.log_softmax(dim=1), other.log_softmax(dim=1)
    return ((log_one.exp() - log_other.exp()) * (log_one - log_other)).sum(dim=1).mean()


def smart_term(
    recipe: SmartRecipe, task: Task, answer: Callable[[Tensor | None], Tensor], noise: Tensor
) -> Tensor:
    """max over noise in the radius of divergence(f(x + noise), f(x)), by a step along the gradient.

    `answer(noise)` gives outputs with noise on the lowest trained layer's input [B, L, D], each time under
    the same dropout masks; `noise` is standard normal. The published code uses the radius only against
    division by zero, so its noise ends near 1 in some coordinate; here no coordinate leaves the radius.
    """
    clean = answer(None)
    noise = noise * recipe.noise
    for _ in range(recipe.steps):
        noise.requires_grad_()
        apart = divergence(task, answer(noise), clean.detach())
        (gradient,) = torch.autograd.grad(apart, noise)
        steepest = gradient.abs().amax(dim=(1, 2), keepdim=True)
        moved = noise.detach() + recipe.step * gradient / (steepest + TINY)
        noise = moved.clamp(-recipe.radius, recipe.radius)
    return divergence(task, answer(noise), clean)
