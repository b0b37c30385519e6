"""Forgetting and transfer follow from the score matrix as the papers define them."""

import pytest

from polytask.evaluate.transfer import Stage, measure_transfer, transfer_to_dict

BEFORE = Stage((), {"a": 0.20, "b": 0.30, "c": 0.10})
SEQUENCE = [
    BEFORE,
    Stage(("a",), {"a": 0.50, "b": 0.36, "c": 0.15}),
    Stage(("b",), {"a": 0.42, "b": 0.80, "c": 0.30}),
    Stage(("c",), {"a": 0.25, "b": 0.82, "c": 0.70}),
]


def test_a_sequence_of_three_tasks_worked_by_hand() -> None:
    found = measure_transfer(SEQUENCE)
    assert found.forgetting == pytest.approx({"a": 0.50 - 0.25, "b": 0.80 - 0.82})
    assert found.backward == pytest.approx({"a": 0.25 - 0.50, "b": 0.82 - 0.80})
    assert found.forward == pytest.approx({"b": 0.36 - 0.30, "c": 0.30 - 0.10})


def test_what_was_best_at_any_stage_is_what_was_forgotten() -> None:
    stages = [*SEQUENCE[:2], Stage(("b",), {"a": 0.55, "b": 0.80, "c": 0.30}), SEQUENCE[3]]
    found = measure_transfer(stages)
    assert found.forgetting["a"] == pytest.approx(0.55 - 0.25)
    assert found.backward["a"] == pytest.approx(0.25 - 0.50)


def test_a_task_that_comes_back_is_measured_from_its_last_stage_on() -> None:
    stages = [*SEQUENCE, Stage(("a", "b"), {"a": 0.52, "b": 0.81, "c": 0.60})]
    found = measure_transfer(stages)
    assert found.forgetting == pytest.approx({"c": 0.70 - 0.60})
    assert found.backward == pytest.approx({"c": 0.60 - 0.70})
    assert found.forward == pytest.approx({"b": 0.06, "c": 0.20})


def test_the_untrained_scores_are_no_stage_that_could_be_forgotten() -> None:
    stages = [Stage((), {"a": 0.9, "b": 0.1}), Stage(("a",), {"a": 0.5, "b": 0.1})]
    stages.append(Stage(("b",), {"a": 0.4, "b": 0.6}))
    assert measure_transfer(stages).forgetting == pytest.approx({"a": 0.5 - 0.4})


def test_an_error_that_falls_is_a_gain() -> None:
    stages = [Stage((), {"a": 4.0, "b": 3.0}), Stage(("a",), {"a": 1.0, "b": 2.5})]
    stages.append(Stage(("b",), {"a": 1.5, "b": 0.5}))
    found = measure_transfer(stages, less_is_better=["a", "b"])
    assert found.forgetting == pytest.approx({"a": 0.5})
    assert found.backward == pytest.approx({"a": -0.5})
    assert found.forward == pytest.approx({"b": 0.5})


def test_a_matrix_without_an_untrained_row_tells_nothing_of_forward_transfer() -> None:
    found = measure_transfer(
        [Stage(("a", "b"), {"a": 0.5, "b": 0.6}), Stage(("c",), {"a": 0.4, "b": 0.6, "c": 1})]
    )
    assert found.forgetting == pytest.approx({"a": 0.1, "b": 0.0})
    assert found.forward == {}


@pytest.mark.parametrize("stages", [[], [BEFORE], [BEFORE, Stage(("a", "b", "c"), {"a": 1, "b": 1, "c": 1})]])
def test_a_single_stage_neither_forgets_nor_transfers(stages: list[Stage]) -> None:
    found = measure_transfer(stages)
    assert (found.forgetting, found.backward, found.forward) == ({}, {}, {})
    assert transfer_to_dict(stages)["mean"] == {}


def test_a_task_without_scores_is_left_out() -> None:
    stages = [Stage((), {"b": 0.1}), Stage(("a",), {"b": 0.2}), Stage(("b",), {"b": 0.7})]
    found = measure_transfer(stages)
    assert (found.forgetting, found.backward) == ({}, {})
    assert found.forward == pytest.approx({"b": 0.1})


def test_the_document_holds_the_matrix_and_means_over_the_tasks_measured() -> None:
    document = transfer_to_dict(SEQUENCE)
    assert [row["tasks"] for row in document["stages"]] == [[], ["a"], ["b"], ["c"]]
    assert document["stages"][2]["scores"] == {"a": 0.42, "b": 0.80, "c": 0.30}
    assert document["mean"] == pytest.approx({"forgetting": 0.115, "backward": -0.115, "forward": 0.13})
