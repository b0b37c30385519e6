"""A task that an update does not draw stays as it is: its head, adapter and optimiser state, bit for bit."""

from pathlib import Path

import pytest
import torch
from tiny_project import load_recipe
from torch import Tensor

from polytask import api
from polytask.model.multitask import module_name
from polytask.train.running import RunningPhase

Snapshot = dict[str, list[Tensor]]

WAYS = {
    "heads alone": (),
    "tied adapters": ("adapter=pal",),
    "adapters around the layers": ("adapter=houlsby_pal",),
    "low rank": ("adapter=lora",),
    "adapters on top": ("adapter=top_attention",),
    "combined gradients": ("adapter=pal", "phases.0.combine=vaccine"),
    "lean gradients": ("adapter=lora", 'phases.0.combine={kind="pcgrad",mode="lean"}'),
    "learned weights": ("adapter=pal", "phases.0.loss_weights=uncertainty", "phases.0.rdrop=1"),
    "smooth and averaged": ("adapter=lora", "phases.0.smart=true", "phases.0.average=ema"),
    "layer by layer": ("adapter=pal", "phases.0.unfreeze=0.5", "phases.0.layer_decay=0.5"),
}


def own_state(running: RunningPhase) -> dict[str, Snapshot]:
    """Of each task: its own parameters with their moments and step counts, and its learned weight."""
    optimizer = running._optimizer
    found: dict[str, Snapshot] = {}
    for number, task in enumerate(running.phase.tasks):
        owned = {
            name: parameter
            for name, parameter in running.part.named.items()
            if name.startswith(tuple(f"{part}.{module_name(task)}." for part in ("heads", "adapters")))
        }
        owned["log variance"] = running.loss_weights.log_variance[number]
        found[task] = {
            name: [parameter.detach().clone()]
            + [torch.as_tensor(value).clone() for value in optimizer.state.get(parameter, {}).values()]
            for name, parameter in owned.items()
        }
    return found


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(a.equal(b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("changes", WAYS.values(), ids=WAYS)
def test_a_task_that_is_not_drawn_does_not_move(
    tiny: Path, one_thread: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: tuple[str, ...]
) -> None:
    update = RunningPhase.update
    idle: list[str] = []

    def watched(running: RunningPhase) -> object:
        phase, number = running.phase, running._state.update
        drawn = {phase.tasks[task] for task in phase.sampler.draw(phase.progress(number))}
        before = own_state(running)
        combined = update(running)
        after = own_state(running)
        for task in phase.tasks:
            moved = [name for name in before[task] if not same(before[task][name], after[task][name])]
            assert any(name.startswith("heads.") for name in moved) == (task in drawn)
            if task not in drawn:
                idle.append(task)
                assert moved == []
        return combined

    monkeypatch.setattr(RunningPhase, "update", watched)
    way = ('phases.0.sampler={kind="round_robin",draws=2}', "phases.0.epochs=1", "phases.0.weight_decay=0.3")
    api.train(load_recipe(tiny, *way, *changes), tmp_path / "run")
    assert idle == ["tags", "alike", "mood"] * 2
