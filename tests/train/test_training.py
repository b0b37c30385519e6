"""What a training moves, what it leaves alone, what it keeps, and when it ends."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from observed import observe, read_events
from safetensors.torch import load_file
from tiny_project import load_recipe
from torch import Tensor, nn

from polytask import api
from polytask.data.batches import BatchStream
from polytask.evaluate.scoring import TaskScore
from polytask.tasks import loss_per_row
from polytask.train import loop, losses
from polytask.train.gradients import GradientEngine
from polytask.train.loop import Training
from polytask.train.state import TrainingError

ONE_STEP = ("phases.0.epochs=1", "phases.0.steps_per_epoch=1")
THREE_STEPS = ("phases.0.epochs=1", "phases.0.steps_per_epoch=3", "phases.0.sampler=round_robin")
HEADS = ("heads.task-mood.", "heads.task-alike.", "heads.task-tags.")
TOP = ("encoder.layers.1.", "encoder.pooler.")


@pytest.mark.parametrize(
    ("train", "trained"),
    [
        ("all", ("encoder.", *HEADS)),
        ("heads", HEADS),
        ("top-1", (*TOP, *HEADS)),
        ("top-2", ("encoder.layers.", "encoder.pooler.", *HEADS)),
        ('["encoder.layers.0.*"]', ("encoder.layers.0.",)),
    ],
)
def test_what_is_trained_moves_and_what_is_frozen_stays_bit_identical(
    project: Path, train: str, trained: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = observe(
        load_recipe(project, *THREE_STEPS, f"phases.0.train={train}"), project / "run", monkeypatch
    )
    # The heads here read the mean, so the pooler has no gradient; nor has an unused position or segment row.
    expected = {n for n in seen.before if n.startswith(trained) and not n.startswith("encoder.pooler.")}
    assert seen.moved() == expected


def test_tasks_outside_the_phase_stay_bit_identical(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = observe(
        load_recipe(project, *THREE_STEPS, 'phases.0.tasks=["mood"]'), project / "run", monkeypatch
    )
    assert {name.split(".")[1] for name in seen.moved() if name.startswith("heads.")} == {"task-mood"}
    assert any(name.startswith("encoder.") for name in seen.moved())


def test_a_task_that_is_not_drawn_keeps_its_head_and_optimiser_state_bit_identical(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = ("phases.0.epochs=4", "phases.0.steps_per_epoch=1", "phases.0.sampler=round_robin")
    observe(load_recipe(project, *changes), project / "run", monkeypatch)
    before, after = (
        load_file(path) for path in sorted((project / "run" / "checkpoints").glob("update-*.saf*"))
    )
    # Update 3 has drawn every task once; update 4 draws `mood` again.
    for name in (name for name in before if name.startswith("model.heads.")):
        assert before[name].equal(after[name]) == (".task-mood." not in name), name
    steps = {name: int(after[name]) for name in after if name.endswith(".step")}
    untouched = [name for name, step in steps.items() if step == 1]
    assert len(untouched) == 4  # weight and bias of two heads
    for name in (name.removesuffix("step") for name in untouched):
        for part in ("step", "exp_avg", "exp_avg_sq"):
            assert before[name + part].equal(after[name + part])
    assert {step for name, step in steps.items() if name not in untouched} == {2, 4}


def test_two_trainings_with_one_seed_give_identical_weights(
    tiny: Path, trained: Path, tmp_path: Path
) -> None:
    api.train(load_recipe(tiny), tmp_path / "again")
    api.train(load_recipe(tiny, "seed=2"), tmp_path / "other")
    weights = "model/model.safetensors"
    assert (tmp_path / "again" / weights).read_bytes() == (trained / weights).read_bytes()
    assert (tmp_path / "other" / weights).read_bytes() != (trained / weights).read_bytes()


def test_the_weights_that_did_best_on_dev_are_saved(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    means = iter([0.1, 0.1, 0.9, 0.9, 0.5, 0.5])  # of all tasks and of the phase's
    monkeypatch.setattr(loop, "mean_score", lambda scores: next(means))
    seen = observe(load_recipe(project, "phases.0.epochs=3"), project / "run", monkeypatch)
    assert [event["best"] for event in seen.named("evaluate")] == [True, True, False]
    saved = api.load(project / "run").network.state_dict()
    assert all(tensor.equal(saved[name]) for name, tensor in seen.at_evaluations[1].items())
    assert not all(tensor.equal(saved[name]) for name, tensor in seen.at_evaluations[2].items())


def test_a_phase_ends_once_dev_has_not_got_better_for_its_patience(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    means = iter([0.5, 0.6, 0.6, 0.1, 0.9, 0.9])

    def found(training: Training, split: str) -> dict[str, TaskScore]:
        mean = next(means)
        return {name: TaskScore("accuracy", mean, 1, {}) for name in training.data}

    monkeypatch.setattr(Training, "score", found)
    changes = ("phases.0.epochs=5", "phases.0.patience=2", "phases.1.epochs=1", "phases.1.steps_per_epoch=2")
    seen = observe(load_recipe(project, *changes), project / "run", monkeypatch)
    assert [(event["phase"], event["epoch"]) for event in seen.named("evaluate")] == [
        *((0, epoch) for epoch in range(1, 5)),
        (1, 1),
    ]


def test_a_loss_that_is_no_number_ends_training_with_the_task_and_the_rate(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(task: Any, *given: Tensor) -> Tensor:
        return loss_per_row(task, *given) * (float("nan") if task.name == "alike" else 1)

    monkeypatch.setattr(losses, "loss_per_row", broken)
    with pytest.raises(TrainingError, match=r"loss of task 'alike' is nan at update 3: .*phases\.0\.lr"):
        api.train(load_recipe(project, *THREE_STEPS), project / "run")


def test_phases_follow_each_other_from_the_weights_before(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = ("phases.0.train=heads", "phases.0.epochs=1", "phases.0.steps_per_epoch=2")
    then_all = ('phases.1.tasks=["mood"]', "phases.1.epochs=1", "phases.1.steps_per_epoch=3")
    seen = observe(load_recipe(project, *heads, *then_all), project / "run", monkeypatch)
    phases = [(event["phase"], event["updates"], event["update"]) for event in seen.named("phase")]
    assert phases == [(0, 2, 0), (1, 3, 2)]
    first, second = (
        load_file(path) for path in sorted((project / "run" / "checkpoints").glob("update-*.saf*"))
    )
    for name, tensor in seen.before.items():
        if name.startswith("encoder."):
            assert tensor.equal(first[f"model.{name}"]), name
        if name.startswith(("heads.task-alike.", "heads.task-tags.")):
            assert first[f"model.{name}"].equal(second[f"model.{name}"]), name
    assert any(not t.equal(second[f"model.{n}"]) for n, t in seen.before.items() if n.startswith("encoder."))


def test_a_joint_update_adds_the_gradients_of_one_batch_of_every_task(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[str, Tensor] = {}
    expected: dict[str, Tensor] = {}
    trainings: list[Training] = []
    train, finish_of_engine = Training.train, GradientEngine.finish

    def watched(training: Training) -> None:
        trainings.append(training)
        for name, gradient in sum_of_gradients(training):
            expected[name] = gradient
        train(training)

    def finish(engine: GradientEngine, *given: Any) -> Any:
        combined = finish_of_engine(engine, *given)
        found.update(gradients(trainings[0].model))
        return combined

    monkeypatch.setattr(Training, "train", watched)
    monkeypatch.setattr(GradientEngine, "finish", finish)
    still = ("dropout=0", *(f"tasks.{task}.dropout=0" for task in ("mood", "alike", "tags")))
    api.train(
        load_recipe(project, *ONE_STEP, "phases.0.sampler=joint", "phases.0.clip=0", *still), project / "run"
    )
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert torch.allclose(found[name], gradient, atol=1e-6), name


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def sum_of_gradients(training: Training) -> Iterator[tuple[str, Tensor]]:
    total: dict[str, Tensor] = {}
    for name, data in training.data.items():
        assert data.train is not None
        size = training.recipe.phases[0].batch_size
        lengths = training.collator.lengths(data.task, data.train)
        rows = BatchStream(name, lengths, size, training.recipe.seed).next()
        batch = training.collator.batch(data.task, data.train, rows)
        outputs = training.model(batch)[name]
        loss_per_row(data.task, outputs, batch.targets[name]).mean().backward()  # type: ignore[no-untyped-call]
        for parameter, gradient in gradients(training.model).items():
            total[parameter] = total[parameter] + gradient if parameter in total else gradient
        training.model.zero_grad(set_to_none=True)
    yield from total.items()


def test_events_say_what_happened_in_the_order_it_did(trained: Path) -> None:
    events = read_events(trained)
    kinds = [event["event"] for event in events if event["event"] != "note"]
    epoch_end = ["update", "evaluate", "checkpoint"]
    assert kinds == ["phase", *epoch_end, "update", *epoch_end, "done"]
    updates = [event for event in events if event["event"] == "update"]
    assert [event["update"] for event in updates] == [6, 10, 12]
    tokens = [event["tokens"] for event in updates]
    assert tokens == sorted(set(tokens))
    assert tokens[-1] == events[-1]["tokens"]
    assert sum(task["rows"] for task in events[-1]["drawn"].values()) <= 12 * 8
    shares = next(event for event in events if event["event"] == "phase")["schedule"]
    assert all(sum(row["share"].values()) == pytest.approx(1, abs=1e-5) for row in shares)


def test_a_run_without_dev_rows_keeps_the_last_weights(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = load_recipe(project, "phases.0.epochs=2")
    tasks = {name: task.model_copy(update={"dev": None}) for name, task in recipe.tasks.items()}
    seen = observe(recipe.changed(tasks=tasks), project / "run", monkeypatch)
    saved = api.load(project / "run").network.state_dict()
    assert all(tensor.equal(saved[name]) for name, tensor in seen.after.items())
    assert seen.named("evaluate") == []
