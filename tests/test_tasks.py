"""Losses are plain torch's, answers are probabilities or values in range, and a task survives its dict."""

import json
from dataclasses import replace

import numpy as np
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
    outputs = OUTPUTS.numpy()
    assert np.allclose(answers(CLASSES, outputs), OUTPUTS.softmax(1), atol=1e-6)
    assert np.allclose(answers(TAGS, outputs), OUTPUTS.sigmoid(), atol=1e-6)
    values = answers(VALUES, np.array([[0.0], [1.0], [-99.0], [99.0]], dtype=np.float32))
    assert values.flatten().tolist() == [3.0, 4.0, 1.0, 5.0]


def test_a_temperature_divides_the_outputs_and_spares_values() -> None:
    outputs = OUTPUTS.numpy()
    assert np.allclose(
        answers(replace(CLASSES, temperature=2.0), outputs), (OUTPUTS / 2).softmax(1), atol=1e-6
    )
    assert np.allclose(answers(replace(TAGS, temperature=0.5), outputs), (OUTPUTS * 2).sigmoid(), atol=1e-6)
    assert np.array_equal(
        answers(replace(VALUES, temperature=3.0), outputs[:, :1]), answers(VALUES, outputs[:, :1])
    )


@pytest.mark.parametrize("value", [1e4, -1e4, 1e30])
def test_outputs_of_any_size_give_finite_probabilities(value: float) -> None:
    outputs = np.array([[value, 0.0, -value]], dtype=np.float32)
    for task in (CLASSES, TAGS):
        assert np.isfinite(answers(task, outputs)).all()


@pytest.mark.parametrize("task", [CLASSES, TAGS, VALUES], ids=lambda task: str(task.kind))
def test_a_task_comes_back_from_json_as_it_went(task: Task) -> None:
    assert Task.from_dict(json.loads(json.dumps(task.to_dict()))) == task


def test_only_a_pair_can_be_encoded_separately() -> None:
    assert replace(VALUES, pairs="separate").separate
    assert not VALUES.separate
    assert not replace(CLASSES, pairs="separate").separate
