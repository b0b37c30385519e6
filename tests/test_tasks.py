"""Losses are plain torch's, answers are probabilities or values in range, and a task survives its dict."""

import json
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from polytask.tasks import Task, answers, loss_per_row

CLASSES = Task("a", "classification", 1, ("x", "y", "z"), None, "accuracy")
TAGS = Task("b", "multilabel", 1, ("x", "y", "z"), None, "f1_macro")
VALUES = Task("c", "regression", 2, (), (1.0, 5.0), "pearson")
OUTPUTS = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))


def test_the_loss_of_classes_is_cross_entropy() -> None:
    targets = torch.tensor([0, 2, 1, 1])
    expected = -OUTPUTS.log_softmax(1)[torch.arange(4), targets]
    assert torch.allclose(loss_per_row(CLASSES, OUTPUTS, targets), expected)


def test_the_loss_of_labels_is_the_mean_binary_cross_entropy() -> None:
    targets = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]], dtype=torch.uint8)
    p = OUTPUTS.sigmoid()
    expected = -(targets * p.log() + (1 - targets.float()) * (1 - p).log()).mean(1)
    assert torch.allclose(loss_per_row(TAGS, OUTPUTS, targets), expected, atol=1e-6)


def test_the_loss_of_values_is_the_squared_error_in_quarters_of_the_range() -> None:
    targets = torch.tensor([1.0, 3.0, 5.0, 2.0])
    expected = (OUTPUTS[:, 0] - torch.tensor([-2.0, 0.0, 2.0, -1.0])) ** 2
    assert torch.allclose(loss_per_row(VALUES, OUTPUTS[:, :1], targets), expected)


@pytest.mark.parametrize("span", [(0.0, 1.0), (-1000.0, 1000.0), (4.0, 4.5)])
def test_a_regressions_loss_does_not_depend_on_the_unit_of_its_values(span: tuple[float, float]) -> None:
    task = replace(VALUES, range=span)
    targets = torch.linspace(*span, 4)
    reference = loss_per_row(VALUES, OUTPUTS[:, :1], torch.linspace(1.0, 5.0, 4))
    assert torch.allclose(loss_per_row(task, OUTPUTS[:, :1], targets), reference, atol=1e-4)


def test_losses_are_taken_in_fp32_of_bf16_outputs() -> None:
    low = OUTPUTS.bfloat16()
    found = loss_per_row(CLASSES, low, torch.tensor([0, 2, 1, 1]))
    assert found.dtype == torch.float32
    assert torch.equal(found, F.cross_entropy(low.float(), torch.tensor([0, 2, 1, 1]), reduction="none"))


def test_answers_are_probabilities_or_values_inside_the_range() -> None:
    assert torch.allclose(answers(CLASSES, OUTPUTS), OUTPUTS.softmax(1))
    assert torch.allclose(answers(TAGS, OUTPUTS), OUTPUTS.sigmoid())
    values = answers(VALUES, torch.tensor([[0.0], [1.0], [-99.0], [99.0]]))
    assert values.flatten().tolist() == [3.0, 4.0, 1.0, 5.0]


@pytest.mark.parametrize("task", [CLASSES, TAGS, VALUES], ids=lambda task: str(task.kind))
def test_a_task_comes_back_from_json_as_it_went(task: Task) -> None:
    assert Task.from_dict(json.loads(json.dumps(task.to_dict()))) == task


def test_only_a_pair_can_be_encoded_separately() -> None:
    assert replace(VALUES, pairs="separate").separate
    assert not VALUES.separate
    assert not replace(CLASSES, pairs="separate").separate
