"""The optimiser decays matrices alone and leaves undrawn tasks as they are; the rate rises and falls."""

from typing import Any

import pytest
import torch
from torch import nn

from polytask.recipe_phases import PhaseRecipe
from polytask.train.gradients import clip_factor, squared_norm
from polytask.train.optimizer import Schedule, build_optimizer, rate_scale, set_rate


def phase(**values: Any) -> PhaseRecipe:
    return PhaseRecipe.model_validate({"lr": 0.1, **values})


def test_the_rate_rises_linearly_and_falls_to_nothing() -> None:
    schedule = Schedule(phase(warmup=0.1), 100)
    rates = [schedule(update) for update in range(100)]
    assert rates[:10] == pytest.approx([0.1 * step / 11 for step in range(1, 11)])
    assert rates[10:] == pytest.approx([0.1 * (100 - update) / 90 for update in range(10, 100)])
    assert max(rates) == rates[10] == 0.1
    assert min(rates) > 0
    assert schedule(100) == 0


def test_a_constant_rate_stays_after_its_warm_up() -> None:
    schedule = Schedule(phase(warmup=0.2, schedule="constant"), 10)
    assert [schedule(update) for update in range(10)] == pytest.approx([0.1 / 3, 0.2 / 3, *[0.1] * 8])


@pytest.mark.parametrize("warmup", [0, 0.5, 1])
@pytest.mark.parametrize("updates", [1, 2, 7])
def test_every_update_has_a_rate_above_nothing_and_at_most_the_recipes(warmup: float, updates: int) -> None:
    schedule = Schedule(phase(warmup=warmup), updates)
    assert all(0 < schedule(update) <= 0.1 + 1e-12 for update in range(updates))


def test_matrices_are_decayed_and_biases_and_norms_are_not() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2), nn.Embedding(4, 2))
    optimizer = build_optimizer(dict(model.named_parameters()), phase(weight_decay=0.3))
    decay = {
        id(parameter): group["weight_decay"]
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    for name, parameter in model.named_parameters():
        assert decay[id(parameter)] == (0.3 if name in ("0.weight", "2.weight") else 0.0), name
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in model.named_parameters():
        expected = before[name] * (1 - 0.1 * 0.3) if parameter.ndim > 1 else before[name]
        assert torch.allclose(parameter, expected), name


def test_a_parameter_without_a_gradient_keeps_its_value_momentum_and_step_count() -> None:
    drawn, undrawn = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))
    optimizer = build_optimizer({"drawn": drawn, "undrawn": undrawn}, phase())
    (drawn.sum() + undrawn.sum()).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    value = undrawn.detach().clone()
    state = {name: tensor.clone() for name, tensor in optimizer.state[undrawn].items()}
    for _ in range(3):
        drawn.sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    assert torch.equal(undrawn, value)
    assert all(torch.equal(optimizer.state[undrawn][name], tensor) for name, tensor in state.items())
    assert int(optimizer.state[drawn]["step"]) == 4


def test_clipping_brings_a_gradient_to_the_limit_and_leaves_shorter_ones_alone() -> None:
    gradients = [torch.tensor([3.0, 0.0]), torch.tensor([4.0])]
    assert squared_norm(gradients) == pytest.approx(25)
    assert clip_factor(25, 1.0) == pytest.approx(0.2, abs=1e-6)
    assert clip_factor(25, 10.0) == 1
    assert squared_norm([]) == 0


def test_a_limit_of_nothing_switches_clipping_off() -> None:
    assert clip_factor(1e12, 0.0) == 1


def test_layers_further_down_and_heads_have_rates_of_their_own() -> None:
    written = phase(layer_decay=0.5, head_lr=0.4)
    names = ("encoder.embeddings.words.weight", "encoder.layers.0.up.bias", "encoder.layers.2.up.bias")
    assert [rate_scale(name, written, 3) for name in names] == [0.0625, 0.125, 0.5]
    assert rate_scale("encoder.pooler.weight", written, 3) == 1
    assert rate_scale("heads.task-a.output.0.weight", written, 3) == pytest.approx(4)
    parameter = nn.Parameter(torch.zeros(2))
    optimizer = build_optimizer({"encoder.layers.0.up.bias": parameter}, written, 3)
    set_rate(optimizer, 0.08)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01)


def test_a_cosine_falls_slowly_first_and_last() -> None:
    schedule = Schedule(phase(warmup=0, schedule="cosine"), 4)
    assert [schedule(update) for update in range(5)] == pytest.approx(
        [0.1, 0.0853553, 0.05, 0.0146447, 0], abs=1e-6
    )
