"""How task-specific layers start: `zero` changes nothing; the others differ where the published code does."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polytask.batch import Tokens
from polytask.choices import AdapterRecipe
from polytask.model.adapters.build import TaskAdapter, bind, build_adapter, plan_adapter
from polytask.model.adapters.rows import TaskRows
from polytask.model.dropout import Dropout
from polytask.model.encoder import Encoder, EncoderConfig

CONFIG = EncoderConfig(
    architecture="bert", vocab_size=30, width=24, num_layers=3, num_heads=4, ffn_width=32, max_length=8
)
ROWS = TaskRows(("a", "b", "c"), (2, 1, 1))
EQUAL_ROWS = TaskRows(("a", "b"), (2, 2))
TOKENS = Tokens(torch.arange(4 * 7).reshape(4, 7) % 29 + 1, torch.tensor([7, 2, 5, 1]))
ZERO: dict[str, dict[str, Any]] = {
    "pal": {"kind": "pal"},
    "pal of one layer": {"kind": "pal", "layers": "1"},
    "pal not shared": {"kind": "pal_unshared"},
    "pal in the top half": {"kind": "pal_top"},
    "pal in the bottom half": {"kind": "pal_bottom"},
    "low rank": {"kind": "low_rank"},
    "ffn": {"kind": "ffn"},
    "houlsby": {"kind": "houlsby"},
    "houlsby and pal": {"kind": "houlsby_pal"},
    "lora": {"kind": "lora"},
    "lora of all": {"kind": "lora", "linears": ("query", "key", "value", "output", "up", "down")},
    "attention on top": {"kind": "top_attention"},
    "ffn on top": {"kind": "top_ffn"},
    "two ffn on top": {"kind": "top_ffn", "depth": 2},
    "layer on top": {"kind": "top_layer"},
}
WITH_FLAVOUR = [name for name in ZERO if not name.startswith("lora")]
DIFFERS_IN_CODE = ("pal", "low rank", "houlsby and pal")  # the published code has a GELU that the paper lacks


def make_encoder() -> Encoder:
    encoder, generator = Encoder(CONFIG), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return encoder


def build(options: dict[str, Any], seed: int = 0) -> TaskAdapter:
    generator = torch.Generator().manual_seed(seed)
    return build_adapter(plan_adapter(AdapterRecipe(**options), CONFIG), CONFIG, generator)


def run(
    encoder: Encoder, adapters: list[TaskAdapter], rows: TaskRows = ROWS, dropout: Dropout | None = None
) -> list[Tensor]:
    modules: list[nn.Module] = [*adapters]
    with torch.no_grad():
        return encoder.states(TOKENS, slots=bind(modules, rows, None, CONFIG.num_layers, dropout))


@pytest.mark.parametrize("rows", [ROWS, EQUAL_ROWS], ids=["unequal", "equal"])
@pytest.mark.parametrize("name", ZERO)
def test_zero_leaves_every_state_as_it_was_bit_for_bit(name: str, rows: TaskRows) -> None:
    encoder = make_encoder()
    with torch.no_grad():
        wanted = encoder.states(TOKENS)
    found = run(encoder, [build(ZERO[name], seed) for seed, _ in enumerate(rows.tasks)], rows)
    assert all(torch.equal(state, plain) for state, plain in zip(found, wanted, strict=True))


@pytest.mark.parametrize("name", ZERO)
def test_zero_is_the_default_and_starts_with_a_gradient_that_moves_it(name: str) -> None:
    """All zero on both sides of a product would never move."""
    encoder, adapters = make_encoder(), [build(ZERO[name], seed) for seed in range(3)]
    modules: list[nn.Module] = [*adapters]
    state = encoder(TOKENS, slots=bind(modules, ROWS, None, CONFIG.num_layers, None))
    (state * torch.randn(state.shape, generator=torch.Generator().manual_seed(2))).sum().backward()
    for adapter in adapters:
        moved = [p for p in adapter.parameters() if p.grad is not None and bool(p.grad.any())]
        assert moved
        assert all(not bool(parameter.any()) for parameter in moved)


@pytest.mark.parametrize("flavour", ["paper", "published"])
@pytest.mark.parametrize("name", WITH_FLAVOUR)
def test_the_other_flavours_change_the_output_from_the_start(name: str, flavour: str) -> None:
    encoder = make_encoder()
    adapters = [build({**ZERO[name], "flavour": flavour}, seed) for seed in range(3)]
    with torch.no_grad():
        plain = encoder(TOKENS)
    assert bool((run(encoder, adapters)[-1] != plain).any(dim=2).any(dim=1).all())


@pytest.mark.parametrize("name", WITH_FLAVOUR)
def test_published_and_paper_differ_only_by_the_gelu_of_the_authors_code(name: str) -> None:
    encoder = make_encoder()
    paper, published = (
        [build({**ZERO[name], "flavour": flavour}, seed) for seed in range(3)]
        for flavour in ("paper", "published")
    )
    same = all(
        torch.equal(mine, yours)
        for one, other in zip(paper, published, strict=True)
        for mine, yours in zip(one.parameters(), other.parameters(), strict=True)
    )
    assert same
    alike = torch.equal(run(encoder, paper)[-1], run(encoder, published)[-1])
    assert alike == (not name.startswith(DIFFERS_IN_CODE))


@pytest.mark.parametrize("name", WITH_FLAVOUR)
def test_weights_start_as_berts_do_and_biases_at_zero(name: str) -> None:
    wide = EncoderConfig(**{**CONFIG.__dict__, "width": 384, "ffn_width": 512})
    plan = plan_adapter(AdapterRecipe(**ZERO[name], flavour="paper"), wide)
    adapter = build_adapter(plan, wide, torch.Generator().manual_seed(0))
    for part in adapter.modules():
        if isinstance(part, nn.Linear):
            assert not bool(part.bias.any())
            assert abs(part.weight.std().item() - 0.02) < 0.001
            assert abs(part.weight.mean().item()) < 0.001


@pytest.mark.parametrize("name", WITH_FLAVOUR)
def test_dropout_is_on_attention_and_on_top_and_never_on_projections(name: str) -> None:
    encoder = make_encoder()
    adapters = [build({**ZERO[name], "flavour": "paper"}, seed) for seed in range(3)]
    for adapter in adapters:
        for parameter in adapter.parameters():
            parameter.detach().mul_(10)
    plain = run(encoder, adapters)[-1]
    one, same, other = (
        run(encoder, adapters, dropout=Dropout(0.5, torch.Generator().manual_seed(seed)))[-1]
        for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    random = "pal" in name or "top" in name.split()
    assert torch.equal(one, plain) == torch.equal(one, other) == (not random)


def test_a_seed_decides_every_start_and_nothing_comes_from_the_global_generator() -> None:
    for name, options in ZERO.items():
        torch.manual_seed(1)
        one = build(options, seed=3)
        torch.manual_seed(2)
        again = build(options, seed=3)
        other = build(options, seed=4)
        pairs = list(zip(one.parameters(), again.parameters(), strict=True))
        assert all(torch.equal(mine, yours) for mine, yours in pairs), name
        assert any(
            not torch.equal(mine, yours)
            for mine, yours in zip(one.parameters(), other.parameters(), strict=True)
        ), name
