"""ModernBERT's own claims: slots in a pre-norm layer, local attention, frozen layers and the last norm."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polytask.batch import Batch, Tokens
from polytask.choices import AdapterRecipe
from polytask.model.adapters.build import bind, build_adapter, plan_adapter
from polytask.model.adapters.rows import TaskRows
from polytask.model.config import EncoderConfig
from polytask.model.dropout import Dropout
from polytask.model.modernbert import ModernBert
from polytask.model.multitask import MultitaskModel
from polytask.model.slots import LayerSlots, Slots
from polytask.tasks import Task

NUM_LAYERS = 3
CONFIG = EncoderConfig(
    architecture="modernbert",
    vocab_size=50,
    width=16,
    num_layers=NUM_LAYERS,
    num_heads=4,
    ffn_width=24,
    max_length=30,
    num_segments=0,
    norm_eps=1e-5,
    pooler=False,
    global_layers=(0,),
    window=2,
)
LENGTHS = torch.tensor([12, 3, 7])
ADDED = torch.randn(3, 12, CONFIG.width, generator=torch.Generator().manual_seed(8))
ADAPTERS: dict[str, dict[str, Any]] = {
    "pal": {"kind": "pal"},
    "pal in the top half": {"kind": "pal_top"},
    "low rank": {"kind": "low_rank"},
    "houlsby": {"kind": "houlsby"},
    "houlsby and pal": {"kind": "houlsby_pal"},
    "lora of all": {"kind": "lora", "linears": ("query", "key", "value", "output", "up", "down")},
    "attention on top": {"kind": "top_attention", "depth": 2},
    "layer on top": {"kind": "top_layer"},
}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def randomise(module: nn.Module, seed: int = 1) -> None:
    generator = seeded(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            around = float("norm" in name and name.endswith("weight"))
            parameter.copy_(around + torch.randn(parameter.shape, generator=generator) * 0.3)


def make_encoder() -> ModernBert:
    encoder = ModernBert(CONFIG)
    randomise(encoder)
    return encoder


def make_tokens() -> Tokens:
    ids = torch.randint(1, CONFIG.vocab_size, (3, 12), generator=seeded(2))
    ids[torch.arange(12) >= LENGTHS[:, None]] = 0
    return Tokens(ids, LENGTHS)


def in_layer(number: int, slots: LayerSlots) -> Slots:
    return Slots([slots if layer == number else LayerSlots() for layer in range(NUM_LAYERS)])


def watch(encoder: ModernBert, name: str) -> tuple[list[Tensor], list[Tensor]]:
    """Lists that fill with what goes into a part and what comes out of it."""
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []

    def keep(_: nn.Module, given: tuple[Tensor, ...], result: Tensor) -> None:
        inputs.append(given[0])
        outputs.append(result)

    encoder.get_submodule(name).register_forward_hook(keep)
    return inputs, outputs


class Recorder:
    """A slot that keeps what it is given and passes it on."""

    def __init__(self) -> None:
        self.given: list[tuple[Tensor, Tensor | None]] = []

    def __call__(self, hidden: Tensor, bias: Tensor | None) -> Tensor:
        self.given.append((hidden, bias))
        return hidden


def test_each_slot_is_given_its_place_and_sees_all_tokens_in_a_local_layer_too() -> None:
    encoder, tokens = make_encoder(), make_tokens()
    _, read = watch(encoder, "layers.1.attention_norm")
    _, attended = watch(encoder, "layers.1.attention")
    _, normed = watch(encoder, "layers.1.ffn_norm")
    _, last = watch(encoder, "final_norm")
    parallel, after, beside, top = (Recorder() for _ in range(4))
    layer = LayerSlots(parallel=parallel, after_attention=after, beside_ffn=beside)
    encoder(tokens, slots=replace(in_layer(1, layer), on_top=top))
    bias = tokens.padding_bias(torch.float32)
    assert bias is not None
    for recorder, wanted in ((parallel, read), (after, attended), (beside, normed), (top, last)):
        hidden, given_bias = recorder.given[0]
        assert torch.equal(hidden, wanted[0])
        assert given_bias is not None
        assert torch.equal(given_bias, bias)


@pytest.mark.parametrize(
    "slots",
    [LayerSlots(parallel=lambda *_: ADDED), LayerSlots(beside_ffn=lambda *_: ADDED)],
    ids=["parallel", "beside_ffn"],
)
def test_what_a_slot_beside_the_layer_gives_is_added_to_its_output(slots: LayerSlots) -> None:
    encoder, tokens = make_encoder(), make_tokens()
    plain = encoder.states(tokens)
    found = encoder.states(tokens, slots=in_layer(0, slots))
    torch.testing.assert_close(found[1], plain[1] + ADDED)
    top = encoder.states(tokens, slots=in_layer(2, slots))[-1]
    inputs, _ = watch(encoder, "final_norm")
    encoder(tokens)
    torch.testing.assert_close(top, encoder.final_norm(inputs[0] + ADDED))


def test_what_the_slot_after_attention_gives_replaces_the_attention() -> None:
    encoder, tokens = make_encoder(), make_tokens()
    inputs, _ = watch(encoder, "layers.1")
    before_norm, _ = watch(encoder, "layers.1.ffn_norm")
    encoder(tokens, slots=in_layer(1, LayerSlots(after_attention=lambda *_: ADDED)))
    torch.testing.assert_close(before_norm[0], inputs[0] + ADDED)


@pytest.mark.parametrize(
    ("name", "place"),
    [("qkv", "attention.qkv"), ("output", "attention.output"), ("up", "up"), ("down", "down")],
)
def test_a_slot_on_a_linear_equals_a_change_of_its_weight(name: str, place: str) -> None:
    encoder, tokens = make_encoder(), make_tokens()
    weight = encoder.get_parameter(f"layers.1.{place}.weight")
    change = torch.randn(weight.shape, generator=seeded(9)) * 0.3
    plain = encoder(tokens)
    found = encoder(tokens, slots=in_layer(1, LayerSlots(linears={name: lambda hidden: hidden @ change.T})))
    with torch.no_grad():
        weight.add_(change)
    torch.testing.assert_close(found, encoder(tokens))
    assert (found - plain).abs().max() > 0.1


@torch.no_grad()
def test_a_local_layer_lets_a_change_travel_as_far_as_its_window() -> None:
    encoder = ModernBert(replace(CONFIG, global_layers=()))
    randomise(encoder)
    tokens = Tokens(torch.arange(1, 13)[None], torch.tensor([12]))
    other = replace(tokens, ids=tokens.ids.clone())
    other.ids[0, 0] = 49
    for number, (one, two) in enumerate(zip(encoder.states(tokens), encoder.states(other), strict=True)):
        changed = (one != two).any(dim=2)[0]
        reach = number * CONFIG.window
        assert bool(changed[: reach + 1].all())
        assert not bool(changed[reach + 1 :].any())


@torch.no_grad()
def test_what_stands_in_the_padding_does_not_matter() -> None:
    encoder, tokens = make_encoder(), make_tokens()
    real = tokens.mask()
    other = replace(tokens, ids=torch.where(real, tokens.ids, 17))
    assert torch.equal(encoder(tokens)[real], encoder(other)[real])
    assert bool(encoder(tokens).isfinite().all())


@pytest.mark.parametrize("frozen", range(NUM_LAYERS + 2))
def test_gradients_and_dropout_stop_below_the_first_trained_layer(frozen: int) -> None:
    encoder, tokens = make_encoder(), make_tokens()
    places = ["embeddings", *(f"layers.{number}" for number in range(NUM_LAYERS))]
    seen = [watch(encoder, place)[1] for place in places]
    encoder(tokens)
    encoder(tokens, Dropout(0.5, seeded()), frozen_layers=frozen)[..., 0].sum().backward()
    for number, place in enumerate(places):
        plain, dropped = seen[number]
        assert torch.equal(plain, dropped) == (number < frozen)
        grads = [parameter.grad for parameter in encoder.get_submodule(place).parameters()]
        assert all((grad is None) == (number < frozen) for grad in grads)
    assert encoder.final_norm.weight.grad is not None


@pytest.mark.parametrize("frozen", range(NUM_LAYERS + 2))
def test_noise_comes_in_where_the_lowest_trained_layer_reads(frozen: int) -> None:
    encoder, tokens = make_encoder(), make_tokens()
    with torch.no_grad():
        plain = encoder.states(tokens, frozen_layers=frozen)
        noisy = encoder.states(tokens, frozen_layers=frozen, noise=ADDED)
    lowest = max(0, frozen - 1)
    assert all(torch.equal(one, two) for one, two in zip(plain[:lowest], noisy[:lowest], strict=True))
    torch.testing.assert_close(noisy[lowest], plain[lowest] + ADDED)


@pytest.mark.parametrize("sizes", [(2, 1), (3,)], ids=["unequal", "one task"])
@pytest.mark.parametrize("name", ADAPTERS)
def test_zero_leaves_every_state_as_it_was_bit_for_bit_and_has_a_gradient(
    name: str, sizes: tuple[int, ...]
) -> None:
    encoder, tokens = make_encoder(), make_tokens()
    rows = TaskRows(("a", "b")[: len(sizes)], sizes)
    plan = plan_adapter(AdapterRecipe(**ADAPTERS[name]), CONFIG)
    adapters: list[nn.Module] = [build_adapter(plan, CONFIG, seeded(seed)) for seed in range(len(sizes))]
    wanted = encoder.states(tokens)
    found = encoder.states(tokens, slots=bind(adapters, rows, None, NUM_LAYERS, None))
    assert all(torch.equal(one, two) for one, two in zip(found, wanted, strict=True))
    (found[-1] * ADDED).sum().backward()  # type: ignore[no-untyped-call]
    for adapter in adapters:
        assert any(p.grad is not None and bool(p.grad.any()) for p in adapter.parameters())


@torch.no_grad()
@pytest.mark.parametrize("name", ADAPTERS)
def test_texts_that_several_tasks_are_asked_of_give_what_each_task_alone_gives(name: str) -> None:
    first = Task("a", "classification", 1, ("no", "yes"), None, "accuracy", pooling="mean")
    tasks = {"a": first, "b": replace(first, name="b", pooling="attention")}
    model = MultitaskModel(make_encoder(), tasks, seeded(), AdapterRecipe(**ADAPTERS[name]))
    randomise(model, 5)
    tokens = make_tokens()
    together = model(Batch(tokens, {"a": slice(0, 3), "b": slice(0, 3)}, {}, 22))
    for task, outputs in together.items():
        alone = model(Batch(tokens, {task: slice(0, 3)}, {}, 22))
        torch.testing.assert_close(outputs, alone[task])
    assert (together["a"] - together["b"]).abs().max() > 0.01


@torch.no_grad()
def test_pooling_over_layers_does_not_follow_the_scale_of_states_that_no_norm_ends() -> None:
    from polytask.model.readers import AttentionPooling

    reader, tokens = AttentionPooling(CONFIG, seeded()), make_tokens()
    randomise(reader)
    first, *middle, last = make_encoder().states(tokens)
    plain = reader([first, *middle, last], tokens, None)
    scaled = reader([first, *(1000 * state for state in middle), last], tokens, None)
    torch.testing.assert_close(scaled, plain, rtol=1e-3, atol=1e-3)
    assert (reader([first, *middle, 2 * last], tokens, None) - plain).abs().max() > 0.01
