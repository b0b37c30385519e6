"""The encoder's own claims: dropout, frozen layers, slots, attention and its seeds."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polytask.batch import Tokens
from polytask.model.attention import PLAIN_ATTENTION_LENGTH, attend
from polytask.model.dropout import Dropout
from polytask.model.encoder import Encoder, EncoderConfig
from polytask.model.slots import LayerSlots, Slots

NUM_LAYERS = 3
CONFIG = EncoderConfig(
    architecture="bert",
    vocab_size=50,
    width=16,
    num_layers=NUM_LAYERS,
    num_heads=4,
    ffn_width=24,
    max_length=12,
)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_encoder(config: EncoderConfig = CONFIG) -> Encoder:
    """An encoder in which every value, norms and biases too, is random."""
    encoder, generator = Encoder(config), seeded(1)
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            around = float(name.endswith("norm.weight"))
            parameter.copy_(around + torch.randn(parameter.shape, generator=generator) * 0.3)
    return encoder


def make_tokens() -> Tokens:
    ids = torch.randint(1, CONFIG.vocab_size, (3, 8), generator=seeded(2))
    lengths = torch.tensor([8, 3, 5])
    ids[torch.arange(8) >= lengths[:, None]] = 0
    return Tokens(ids, lengths)


def in_layer(number: int, slots: LayerSlots) -> Slots:
    return Slots([slots if layer == number else LayerSlots() for layer in range(NUM_LAYERS)])


class Recorder:
    """A slot that keeps what it is given and passes it on."""

    def __init__(self) -> None:
        self.given: list[tuple[Tensor, Tensor | None]] = []

    def __call__(self, hidden: Tensor, bias: Tensor | None) -> Tensor:
        self.given.append((hidden, bias))
        return hidden


def watch(module: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """Lists that fill with what goes into a module and what comes out of it."""
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []

    def keep(_: nn.Module, given: tuple[Tensor, ...], result: Tensor) -> None:
        inputs.append(given[0])
        outputs.append(result)

    module.register_forward_hook(keep)
    return inputs, outputs


def layer_of(encoder: Encoder, number: int) -> nn.Module:
    return encoder.get_submodule(f"layers.{number}")


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_zeroes_its_share_and_keeps_the_expectation(rate: float) -> None:
    ones = torch.ones(1000, 999)
    dropped = Dropout(rate, seeded())(ones)
    share = round(rate * 256) / 256
    assert abs((dropped == 0).float().mean().item() - share) < 0.002
    kept = dropped[dropped != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - share)))
    assert abs(dropped.mean().item() - 1) < 0.003


def test_dropout_hits_every_place_alike() -> None:
    generator = seeded()
    dropped = torch.stack([Dropout(0.25, generator)(torch.ones(3, 7)) for _ in range(4000)])
    assert ((dropped == 0).float().mean(0) - 0.25).abs().max() < 0.04


def test_dropout_of_rate_zero_changes_nothing_and_draws_nothing() -> None:
    generator, hidden = seeded(), torch.randn(5, 3)
    before = generator.get_state()
    assert Dropout(0.0, generator)(hidden) is hidden
    assert torch.equal(generator.get_state(), before)


def test_the_same_seed_gives_the_same_output_and_another_seed_another() -> None:
    encoder, tokens = make_encoder(), make_tokens()
    first, again, other = (encoder(tokens, Dropout(0.1, seeded(seed))) for seed in (4, 4, 5))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_without_dropout_nothing_is_drawn_from_the_global_generator() -> None:
    encoder, tokens = make_encoder(), make_tokens()
    before = torch.get_rng_state()
    assert torch.equal(encoder(tokens), encoder(tokens))
    encoder(tokens, Dropout(0.5, seeded()))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("frozen", range(NUM_LAYERS + 2))
def test_gradients_stop_below_the_first_trained_layer(frozen: int) -> None:
    encoder = make_encoder(replace(CONFIG, pooler=False))
    head = nn.Linear(CONFIG.width, 1)
    head(encoder(make_tokens(), Dropout(0.1, seeded()), frozen_layers=frozen)).sum().backward()
    assert head.weight.grad is not None
    parts = [encoder.embeddings, *(layer_of(encoder, number) for number in range(NUM_LAYERS))]
    for number, part in enumerate(parts):
        grads = [parameter.grad for parameter in part.parameters()]
        if number < frozen:
            assert all(grad is None for grad in grads)
        else:
            assert all(grad is not None for grad in grads)
            assert any(grad.abs().max() > 0 for grad in grads if grad is not None)


@pytest.mark.parametrize("frozen", range(NUM_LAYERS + 2))
def test_frozen_layers_run_without_dropout(frozen: int) -> None:
    encoder, tokens = make_encoder(), make_tokens()
    seen = [watch(layer_of(encoder, number))[1] for number in range(NUM_LAYERS)]
    embedded = watch(encoder.embeddings)[1]
    encoder(tokens)
    encoder(tokens, Dropout(0.5, seeded()), frozen_layers=frozen)
    for number, (plain, dropped) in enumerate([embedded, *seen]):
        assert torch.equal(plain, dropped) == (number < frozen)


def test_frozen_layers_do_not_switch_gradients_on_again() -> None:
    with torch.no_grad():
        assert not make_encoder()(make_tokens(), frozen_layers=1).requires_grad


def test_empty_slots_change_nothing() -> None:
    encoder, tokens = make_encoder(), make_tokens()
    assert torch.equal(encoder(tokens), encoder(tokens, slots=in_layer(0, LayerSlots())))


def test_each_slot_is_given_its_place_in_the_layer() -> None:
    encoder, tokens = make_encoder(), make_tokens()
    layer_inputs, _ = watch(layer_of(encoder, 1))
    _, attended = watch(encoder.get_submodule("layers.1.attention"))
    _, middle = watch(encoder.get_submodule("layers.1.attention_norm"))
    parallel, after, beside, top = (Recorder() for _ in range(4))
    layer = LayerSlots(parallel=parallel, after_attention=after, beside_ffn=beside)
    encoder(tokens, slots=replace(in_layer(1, layer), on_top=top))

    bias = tokens.padding_bias(torch.float32)
    assert bias is not None
    _, last = watch(layer_of(encoder, NUM_LAYERS - 1))
    encoder(tokens, slots=in_layer(1, layer))
    for recorder, wanted in ((parallel, layer_inputs), (after, attended), (beside, middle), (top, last)):
        hidden, given_bias = recorder.given[0]
        assert torch.equal(hidden, wanted[0])
        assert given_bias is not None
        assert torch.equal(given_bias, bias)


ADDED = torch.randn(3, 8, CONFIG.width, generator=seeded(8))


@pytest.mark.parametrize(
    "slots",
    [LayerSlots(parallel=lambda *_: ADDED), LayerSlots(beside_ffn=lambda *_: ADDED)],
    ids=["parallel", "beside_ffn"],
)
def test_what_a_slot_beside_the_layer_gives_is_added_before_the_last_norm(slots: LayerSlots) -> None:
    encoder, tokens = make_encoder(), make_tokens()
    before_norm, _ = watch(encoder.get_submodule("layers.2.ffn_norm"))
    encoder(tokens)
    found = encoder(tokens, slots=in_layer(2, slots))
    wanted = encoder.get_submodule("layers.2.ffn_norm")(before_norm[0] + ADDED)
    torch.testing.assert_close(found, wanted)


def test_what_the_slot_after_attention_gives_replaces_the_attention() -> None:
    encoder, tokens = make_encoder(), make_tokens()
    inputs, _ = watch(layer_of(encoder, 0))
    before_norm, _ = watch(encoder.get_submodule("layers.0.attention_norm"))
    encoder(tokens, slots=in_layer(0, LayerSlots(after_attention=lambda *_: ADDED)))
    torch.testing.assert_close(before_norm[0], inputs[0] + ADDED)


def test_what_the_slot_on_top_gives_is_the_output() -> None:
    encoder, tokens = make_encoder(), make_tokens()
    found = encoder(tokens, slots=replace(in_layer(0, LayerSlots()), on_top=lambda hidden, _: 2 * hidden))
    assert torch.equal(found, 2 * encoder(tokens))


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


def test_a_batch_without_padding_needs_no_bias() -> None:
    full = Tokens(torch.ones(2, 4, dtype=torch.int64), torch.tensor([4, 4]))
    assert full.padding_bias(torch.float32) is None


def test_what_stands_in_the_padding_does_not_matter() -> None:
    encoder, tokens = make_encoder(), make_tokens()
    real = torch.arange(8) < tokens.lengths[:, None]
    other = replace(tokens, ids=torch.where(real, tokens.ids, 17))
    assert torch.equal(encoder(tokens)[real], encoder(other)[real])


def test_segments_of_zero_are_the_default_and_others_count() -> None:
    encoder, tokens = make_encoder(), make_tokens()
    zeros = replace(tokens, segments=torch.zeros_like(tokens.ids))
    ones = replace(tokens, segments=torch.ones_like(tokens.ids))
    torch.testing.assert_close(encoder(zeros), encoder(tokens))
    assert (encoder(ones) - encoder(tokens)).abs().max() > 0.1


def test_the_pooler_reads_the_first_token_only() -> None:
    encoder = make_encoder()
    hidden = torch.randn(2, 5, CONFIG.width, generator=seeded(3))
    pooled = encoder.pool(hidden)
    assert pooled.shape == (2, CONFIG.width)
    assert encoder.pooler is not None
    torch.testing.assert_close(
        pooled, torch.tanh(F.linear(hidden[:, 0], encoder.pooler.weight, encoder.pooler.bias))
    )


@pytest.mark.parametrize("length", [1, 8, PLAIN_ATTENTION_LENGTH, PLAIN_ATTENTION_LENGTH + 1])
@pytest.mark.parametrize("padded", [False, True])
def test_attention_in_bf16_equals_the_fused_kernel_within_its_precision(length: int, padded: bool) -> None:
    query, key, value = torch.randn(3, 2, 4, length, 8, generator=seeded(6)).unbind(0)
    lengths = torch.tensor([length, (length + 1) // 2 if padded else length])
    tokens = Tokens(torch.zeros(2, length, dtype=torch.int64), lengths)
    wanted = F.scaled_dot_product_attention(query, key, value, attn_mask=tokens.padding_bias(torch.float32))
    bias = tokens.padding_bias(torch.bfloat16)
    found = attend(query.bfloat16(), key.bfloat16(), value.bfloat16(), bias, None)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), wanted, rtol=0.03, atol=0.03)


def test_attention_written_out_equals_the_fused_kernel() -> None:
    query, key, value = torch.randn(3, 2, 4, 9, 8, generator=seeded(6)).unbind(0)
    bias = Tokens(torch.zeros(2, 9, dtype=torch.int64), torch.tensor([9, 2])).padding_bias(torch.float32)
    written_out = attend(query, key, value, bias, Dropout(0.0, seeded()))
    torch.testing.assert_close(written_out, F.scaled_dot_product_attention(query, key, value, attn_mask=bias))


def test_dropout_of_attention_falls_on_its_weights() -> None:
    shape = (1, 1, 40, 4)
    value = torch.ones(shape)
    mixed = attend(torch.zeros(shape), torch.zeros(shape), value, None, Dropout(0.5, seeded()))
    kept = (mixed[..., 0] * 20).round()  # 40 equal weights of 1/40, those kept doubled: a count over 20
    torch.testing.assert_close(mixed[..., 0] * 20, kept)
    assert len(set(kept.flatten().tolist())) > 3


def test_bf16_autocast_stays_close_to_fp32() -> None:
    encoder, tokens = make_encoder(), make_tokens()
    real = torch.arange(8) < tokens.lengths[:, None]
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        found = encoder(tokens)
    with torch.no_grad():
        wanted = encoder(tokens)
    assert (found.float() - wanted)[real].abs().max() < 0.05 * wanted[real].abs().max()
