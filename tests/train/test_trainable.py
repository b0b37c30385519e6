"""What a phase trains moves and nothing else does; the layers frozen below cost no gradient."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from polytask.batch import Batch, Tokens
from polytask.choices import AdapterRecipe, HeadRecipe
from polytask.errors import RecipeError
from polytask.model.encoder import Encoder, EncoderConfig
from polytask.model.multitask import MultitaskModel
from polytask.recipe_phases import PhaseRecipe
from polytask.tasks import Task
from polytask.train.optimizer import build_optimizer
from polytask.train.phases import Phase, TrainablePart, select_trainable
from polytask.train.samplers import Sampler
from polytask.update_choices import SamplerRecipe

NUM_LAYERS = 3
CONFIG = EncoderConfig(
    architecture="bert",
    vocab_size=20,
    width=12,
    num_layers=NUM_LAYERS,
    num_heads=2,
    ffn_width=16,
    max_length=6,
    norm_eps=1e-6,
)
BASE = Task("a", "classification", 1, ("no", "yes"), None, "accuracy", pooling="pooler")
TASKS = {
    "a": BASE,
    "b": replace(BASE, name="b", head=HeadRecipe(kind="hidden")),
    "c": replace(BASE, name="c", pooling="mean"),
}
LAYERS = tuple(f"layer {number}" for number in range(NUM_LAYERS))
ENCODER = ("embeddings", *LAYERS, "pooler")
KINDS: dict[str, dict[str, Any]] = {
    "none": {"kind": "none"},
    "pal": {"kind": "pal"},
    "pal_unshared": {"kind": "pal_unshared"},
    "pal_top": {"kind": "pal_top"},
    "pal_bottom": {"kind": "pal_bottom"},
    "pal of the last layer": {"kind": "pal", "layers": "2"},
    "low_rank": {"kind": "low_rank"},
    "ffn": {"kind": "ffn", "layers": "1"},
    "houlsby": {"kind": "houlsby", "layers": "top-2"},
    "houlsby_pal": {"kind": "houlsby_pal"},
    "lora": {"kind": "lora", "rank": 2},
    "lora of layer 1": {"kind": "lora", "rank": 2, "layers": "1", "linears": ("down",)},
    "top_attention": {"kind": "top_attention", "depth": 1},
    "top_ffn": {"kind": "top_ffn"},
    "top_layer": {"kind": "top_layer"},
}
TRAINED: dict[str | tuple[str, ...], tuple[str, ...]] = {
    "all": (*ENCODER, "head", "adapter"),
    "heads": ("head",),
    "adapters": ("head", "adapter"),
    "top-1": ("layer 2", "pooler", "head", "adapter"),
    "top-2": ("layer 1", "layer 2", "pooler", "head", "adapter"),
    "top-3": (*LAYERS, "pooler", "head", "adapter"),
    "encoder.*": ENCODER,
    "encoder.layers.1.*": ("layer 1",),
    "encoder.pooler.*": ("pooler",),
    "adapters.*": ("adapter",),
    ("encoder.embeddings.*", "heads.*"): ("embeddings", "head"),
    ("encoder.layers.[02].*", "adapters.*"): ("layer 0", "layer 2", "adapter"),
}
WORDS = list(TRAINED)


def make_model(kind: str) -> MultitaskModel:
    """Every value random, so that nothing stands still for being zero."""
    adapter = AdapterRecipe(**KINDS[kind])
    model = MultitaskModel(Encoder(CONFIG), TASKS, torch.Generator().manual_seed(0), adapter)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            around = float("norm" in name and name.endswith("weight"))
            parameter.copy_(around + torch.randn(parameter.shape, generator=generator) * 0.2)
    return model


def make_phase(
    train: str | tuple[str, ...], tasks: tuple[str, ...] = ("a", "b"), adapters: bool = True
) -> Phase:
    recipe = PhaseRecipe.model_validate(
        {"tasks": tasks, "train": train, "adapters": adapters, "lr": 0.1, "weight_decay": 0.5}
    )
    sizes = (1,) * len(tasks)
    return Phase(3, recipe, tasks, sizes, 1, Sampler(SamplerRecipe(kind="joint"), sizes, (0,)))


def make_batch(tasks: Iterable[str]) -> Batch:
    names = list(tasks)
    ids = torch.randint(1, 20, (2 * len(names), 5), generator=torch.Generator().manual_seed(len(names)))
    slices = {task: slice(2 * number, 2 * number + 2) for number, task in enumerate(names)}
    return Batch(Tokens(ids, torch.tensor([5, 3] * len(names))), slices, {}, 8 * len(names))


def part_of(name: str) -> tuple[str, str]:
    """The part of the model that a parameter belongs to, and its task."""
    folder, owner, *rest = name.split(".")
    if folder == "encoder":
        return (f"layer {rest[0]}" if owner == "layers" else owner), ""
    return folder.removesuffix("s"), owner.removeprefix("task-")


def expected(
    model: MultitaskModel, word: str | tuple[str, ...], tasks: Iterable[str], adapters: bool = True
) -> set[str]:
    """The parameters that a phase should train."""
    parts = {(part, "") for part in TRAINED[word] if part in ENCODER}
    parts |= {(part, task) for part in TRAINED[word] if part not in ENCODER for task in tasks}
    names = {name for name, _ in model.named_parameters() if part_of(name) in parts}
    return names if adapters else {name for name in names if not name.startswith("adapters.")}


def trained(model: MultitaskModel) -> set[str]:
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


def backward(model: MultitaskModel, batch: Batch, frozen_layers: int) -> dict[str, Tensor | None]:
    """The gradients of a weighted sum of all outputs."""
    model.zero_grad()
    outputs = torch.cat([found.flatten() for found in model(batch, frozen_layers=frozen_layers).values()])
    weight = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(7))
    if outputs.requires_grad:
        (outputs * weight).sum().backward()  # type: ignore[no-untyped-call]
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def same(one: Mapping[str, Tensor | None], other: Mapping[str, Tensor | None]) -> bool:
    for name, gradient in one.items():
        twin = other[name]
        if gradient is None or twin is None:
            if gradient is not twin:
                return False
        elif not torch.equal(gradient, twin):
            return False
    return True


def copy_of(model: MultitaskModel) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def moved(model: MultitaskModel, before: Mapping[str, Tensor]) -> set[str]:
    return {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}


def update(
    model: MultitaskModel, part: TrainablePart, optimizer: torch.optim.Optimizer, drawn: Iterable[str]
) -> None:
    """One update as the loop does it: a backward pass for each draw, and one step."""
    for task in drawn:
        (model(make_batch([task]), frozen_layers=part.frozen_layers)[task] ** 2).sum().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def is_empty(kind: str, word: str | tuple[str, ...], adapters: bool) -> bool:
    """Whether a pattern names adapters where there are none."""
    words = (word,) if isinstance(word, str) else word
    return "adapters.*" in words and (kind == "none" or not adapters)


@pytest.mark.parametrize("adapters", [True, False])
@pytest.mark.parametrize("word", WORDS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_exactly_what_the_recipe_names_is_trained_and_frozen_layers_cost_no_gradient(
    kind: str, word: str | tuple[str, ...], adapters: bool
) -> None:
    model, phase = make_model(kind), make_phase(word, adapters=adapters)
    if is_empty(kind, word, adapters):
        with pytest.raises(RecipeError, match=r"phases\.3\.train .*adapters\.\*.* matches none"):
            select_trainable(model, phase)
        return
    part = select_trainable(model, phase)
    wanted = expected(model, word, ("a", "b"), adapters)
    assert trained(model) == wanted
    assert {id(p) for p in part.parameters} == {id(p) for p in model.parameters() if p.requires_grad}
    assert len(part.parameters) == len(wanted)
    assert model.adapters_on == (adapters and kind != "none")

    batch = make_batch(("a", "b"))
    everything = backward(model, batch, frozen_layers=0)
    assert same(backward(model, batch, part.frozen_layers), everything)
    assert {name for name, gradient in everything.items() if gradient is not None} == wanted
    if part.frozen_layers <= NUM_LAYERS:  # one layer more would be too much
        assert not same(backward(model, batch, part.frozen_layers + 1), everything)


@pytest.mark.parametrize("word", WORDS, ids=str)
@pytest.mark.parametrize("kind", ["none", "pal", "lora", "houlsby", "top_layer"])
def test_an_update_moves_the_parts_of_the_tasks_that_were_drawn_and_no_others(
    kind: str, word: str | tuple[str, ...]
) -> None:
    if is_empty(kind, word, adapters=True):
        return
    model, phase = make_model(kind), make_phase(word)
    part = select_trainable(model, phase)
    optimizer = build_optimizer(part.named, phase.recipe)
    before = copy_of(model)
    update(model, part, optimizer, ("a", "b"))
    assert moved(model, before) == expected(model, word, ("a", "b"))

    # Now `b` has momentum, and weight decay is high: neither may move it while it is not drawn.
    before = copy_of(model)
    update(model, part, optimizer, ("a",))
    assert moved(model, before) == expected(model, word, ("a",))


@pytest.mark.parametrize("word", ["all", "heads", "adapters", "top-1", "adapters.*"])
def test_a_task_outside_the_phase_keeps_its_head_and_adapter(word: str) -> None:
    model = make_model("pal")
    select_trainable(model, make_phase(word, tasks=("b",)))
    assert {part_of(name)[1] for name in trained(model)} <= {"", "b"}
    assert trained(model) == expected(model, word, ("b",))


def test_a_pattern_cannot_reach_a_task_outside_the_phase() -> None:
    model = make_model("pal")
    with pytest.raises(RecipeError, match="matches none"):
        select_trainable(model, make_phase(("heads.task-c.*", "adapters.task-c.*"), tasks=("a",)))


def test_more_layers_than_there_are_cannot_be_trained() -> None:
    with pytest.raises(RecipeError, match=f"at most the {NUM_LAYERS} layers"):
        select_trainable(make_model("none"), make_phase(f"top-{NUM_LAYERS + 1}"))


def test_a_phase_undoes_what_the_phase_before_froze() -> None:
    model = make_model("pal")
    for word, adapters in (("heads", False), ("all", True), ("adapters", True), ("top-1", False)):
        select_trainable(model, make_phase(word, tasks=tuple(TASKS), adapters=adapters))
        assert trained(model) == expected(model, word, TASKS, adapters)
        assert model.adapters_on == adapters


@pytest.mark.parametrize(
    ("kind", "word", "frozen"),
    [
        ("none", "all", 0),
        ("none", "heads", 1 + NUM_LAYERS),
        ("none", "encoder.pooler.*", 1 + NUM_LAYERS),
        ("none", "top-3", 1),
        ("none", "top-1", 3),
        ("pal", "heads", 1 + NUM_LAYERS),
        ("pal", "adapters", 1),
        ("pal_top", "adapters", 2),
        ("pal of the last layer", "adapters", 3),
        ("pal of the last layer", "top-2", 2),
        ("top_layer", "adapters", 1 + NUM_LAYERS),
        ("top_layer", "top-1", 3),
    ],
)
def test_layers_below_all_that_is_trained_are_frozen(kind: str, word: str, frozen: int) -> None:
    assert select_trainable(make_model(kind), make_phase(word)).frozen_layers == frozen


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_layers_keep_no_graph(kind: str) -> None:
    """Where only heads and adapters are trained, states below the first adapted layer need no gradient."""
    if kind == "none":
        return
    model = make_model(kind)
    part = select_trainable(model, make_phase("adapters"))
    kept: dict[int, bool] = {}
    for number, layer in enumerate(model.encoder.layers):
        layer.register_forward_hook(
            lambda _, __, state, number=number: kept.update({number: state.requires_grad})
        )
    model(make_batch(("a", "b")), frozen_layers=part.frozen_layers)
    assert kept == {number: number >= model.first_adapted for number in range(NUM_LAYERS)}
