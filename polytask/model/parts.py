"""Models cut apart and put together by task, on one shared encoder."""

from collections.abc import Mapping, Sequence

import torch

from polytask.choices import AdapterRecipe
from polytask.errors import ModelError
from polytask.model.multitask import MultitaskModel, module_name
from polytask.tasks import Task


def take_tasks(model: MultitaskModel, names: Sequence[str]) -> MultitaskModel:
    """A model of only these tasks; the encoder and their own layers are shared with the whole one."""
    part = MultitaskModel(
        model.encoder, {name: model.tasks[name] for name in names}, torch.Generator(), model.adapter
    )
    _copy_own(model, part, names)
    part.adapters_on = model.adapters_on
    return part.eval()


def join_models(model: MultitaskModel, other: MultitaskModel, names: Sequence[str]) -> MultitaskModel:
    """`model` with some tasks of `other`, which was trained on the same encoder."""
    taken = [name for name in names if name in model.tasks]
    if taken:
        raise ModelError(f"the model has a task {taken[0]!r} already.")
    if model.adapter != other.adapter or model.adapters_on != other.adapters_on:
        raise ModelError(
            f"both models should have the same task-specific layers. Found {model.adapter.kind!r} and "
            f"{other.adapter.kind!r}, or different sizes."
        )
    changed = _first_difference(model, other)
    if changed is not None:
        raise ModelError(f"both models should have the same encoder. Found that they differ in {changed!r}.")
    tasks = {**model.tasks, **{name: other.tasks[name] for name in names}}
    joined = MultitaskModel(model.encoder, tasks, torch.Generator(), model.adapter)
    _copy_own(model, joined, list(model.tasks))
    _copy_own(other, joined, names)
    joined.adapters_on = model.adapters_on
    return joined.eval()


def extend_model(
    model: MultitaskModel, tasks: Mapping[str, Task], generator: torch.Generator, adapter: AdapterRecipe
) -> MultitaskModel:
    """`model` with new tasks beside its own, untrained; its parts are shared with it.

    Where `model` has no task-specific layers and `adapter` names some, all tasks get them.
    """
    extended = MultitaskModel(model.encoder, {**model.tasks, **tasks}, generator, adapter)
    _copy_own(model, extended, list(model.tasks))
    extended.adapters_on = model.adapters_on if model.adapter.kind != "none" else adapter.kind != "none"
    return extended


def _copy_own(source: MultitaskModel, target: MultitaskModel, names: Sequence[str]) -> None:
    for name in map(module_name, names):
        target.heads[name] = source.heads[name]
        if name in source.adapters:
            target.adapters[name] = source.adapters[name]


def _first_difference(model: MultitaskModel, other: MultitaskModel) -> str | None:
    """The first tensor in which two encoders differ."""
    if model.encoder.config != other.encoder.config:
        return "config"
    theirs = other.encoder.state_dict()
    for name, tensor in model.encoder.state_dict().items():
        if not torch.equal(tensor, theirs[name].to(tensor.device)):
            return name
    return None
