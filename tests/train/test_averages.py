"""Averages of the weights are the means they should be, take the weights' place, and survive a checkpoint."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polytask.train.averages import Average
from polytask.update_choices import AverageRecipe

COURSE = torch.randn(20, 3, generator=torch.Generator().manual_seed(1))


def average(parameter: nn.Parameter, **options: Any) -> Average:
    return Average(AverageRecipe.model_validate(options), {"weights": parameter})


def follow(kept: Average, parameter: nn.Parameter, course: Tensor, done: int = 0) -> None:
    """The weights take a course, of which `done` updates were made before."""
    for number, values in enumerate(course, start=done + 1):
        with torch.no_grad():
            parameter.copy_(values)
        kept.add(number / len(COURSE))


def test_a_mean_begins_at_its_start() -> None:
    parameter = nn.Parameter(torch.zeros(3))
    kept = average(parameter, kind="mean", start=0.25)
    follow(kept, parameter, COURSE)
    with kept.applied():
        assert torch.allclose(parameter, COURSE[4:].mean(dim=0), atol=1e-6)
    assert torch.equal(parameter, COURSE[-1])


def test_an_exponential_mean_catches_up_at_first() -> None:
    parameter = nn.Parameter(torch.zeros(3))
    kept = average(parameter, kind="ema", decay=0.7)
    follow(kept, parameter, COURSE)
    expected = COURSE[0].double()
    for count, values in enumerate(COURSE[1:].double(), start=2):
        keep = min(0.7, (1 + count) / (10 + count))
        expected = keep * expected + (1 - keep) * values
    kept.settle()
    assert torch.allclose(parameter.double(), expected, atol=1e-6)


@pytest.mark.parametrize("options", [{"kind": "ema"}, {"kind": "mean"}, {"kind": "mean", "start": 0.9}])
@pytest.mark.parametrize("stopped", [0, 3, 10, 19])
def test_an_average_goes_on_from_a_checkpoint_bit_for_bit(options: dict[str, Any], stopped: int) -> None:
    parameter, again = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))
    whole, resumed = average(parameter, **options), average(again, **options)
    follow(whole, parameter, COURSE[:stopped])
    resumed.restore(whole.tensors())
    follow(whole, parameter, COURSE[stopped:], stopped)
    follow(resumed, again, COURSE[stopped:], stopped)
    whole.settle()
    resumed.settle()
    assert torch.equal(parameter, again)
    assert not torch.equal(parameter, COURSE[-1])


def test_no_average_changes_nothing_and_keeps_nothing() -> None:
    parameter = nn.Parameter(torch.zeros(3))
    kept = average(parameter)
    follow(kept, parameter, COURSE)
    kept.settle()
    assert torch.equal(parameter, COURSE[-1])
    assert set(kept.tensors()) == {"average.count"}
