"""Every adapter equals its equation written out: one row, one head and one token at a time, in float64."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polytask.batch import Tokens
from polytask.choices import AdapterRecipe
from polytask.model.adapters.build import bind, build_adapter, plan_adapter
from polytask.model.adapters.rows import TaskRows
from polytask.model.encoder import Encoder, EncoderConfig
from polytask.model.slots import Slots

TOLERANCE = 1e-5
NUM_LAYERS = 4
CONFIG = EncoderConfig("bert", 30, 12, NUM_LAYERS, num_heads=3, ffn_width=20, max_length=9, norm_eps=1e-6)
LENGTHS = (4, 2, 6, 1, 3, 5)
ROWS = {  # the same six rows; tasks with equally many share one batched product
    "unequal": TaskRows(("a", "b", "c"), (2, 1, 3)),
    "equal": TaskRows(("a", "b", "c"), (2, 2, 2)),
    "one task": TaskRows(("a",), (6,)),
}
LINEARS = ("query", "key", "value", "output", "up", "down")
PALS = ("pal", "pal_unshared", "pal_top", "pal_bottom", "houlsby_pal")
PARALLEL = (*PALS[:4], "low_rank", "ffn")

Weights = Mapping[str, Tensor]


@dataclass(frozen=True)
class Case:
    """A variant as a recipe writes it, and the layers that it should adapt."""

    chosen: AdapterRecipe
    layers: tuple[int, ...] = ()


def variants() -> dict[str, Case]:
    everywhere = tuple(range(NUM_LAYERS))
    found: dict[str, Case] = {}

    def add(name: str, adapted: tuple[int, ...], /, **options: Any) -> None:
        found[name] = Case(AdapterRecipe(**options), adapted)

    for flavour in ("zero", "paper", "published"):
        pal: dict[str, Any] = {"flavour": flavour, "size": 6, "heads": 2}
        small: dict[str, Any] = {"flavour": flavour, "size": 5}
        add(f"pal {flavour}", everywhere, kind="pal", **pal)
        add(f"pal of layers 1 and 3 {flavour}", (1, 3), kind="pal", layers="3,1", **pal)
        add(f"pal not shared {flavour}", everywhere, kind="pal_unshared", **pal)
        add(f"pal not shared, top 2 {flavour}", (2, 3), kind="pal_unshared", layers="top-2", **pal)
        add(f"pal in the top half {flavour}", (2, 3), kind="pal_top", **pal)
        add(f"pal in the bottom half {flavour}", (0, 1), kind="pal_bottom", **pal)
        add(f"low rank {flavour}", everywhere, kind="low_rank", **small)
        add(f"low rank of layer 2 {flavour}", (2,), kind="low_rank", layers=[2], **small)
        add(f"ffn {flavour}", everywhere, kind="ffn", **small)
        add(f"ffn of the top layer {flavour}", (3,), kind="ffn", layers="top-1", **small)
        add(f"houlsby {flavour}", everywhere, kind="houlsby", **small)
        add(f"houlsby, bottom 3 {flavour}", (0, 1, 2), kind="houlsby", layers="bottom-3", **small)
        add(f"houlsby and pal {flavour}", everywhere, kind="houlsby_pal", bottleneck=5, **pal)
        add(f"attention on top {flavour}", (), kind="top_attention", depth=3, **pal)
        add(f"ffn on top, one layer {flavour}", (), kind="top_ffn", depth=1, **small)
        add(f"ffn on top, two layers {flavour}", (), kind="top_ffn", depth=2, **small)
        add(f"layer on top {flavour}", (), kind="top_layer", flavour=flavour)
    for linear in LINEARS:
        add(f"lora of {linear}", everywhere, kind="lora", rank=3, alpha=5.0, linears=(linear,))
    add("lora of all linears", (0, 2), kind="lora", rank=2, alpha=1.0, linears=LINEARS, layers="0,2")
    add("lora as it comes", everywhere, kind="lora")
    return found


CASES = variants()


# --- the equations ---------------------------------------------------------------------------------


def affine(weights: Weights, name: str, hidden: Tensor) -> Tensor:
    return F.linear(hidden, weights[f"{name}.weight"], weights[f"{name}.bias"])


def gelu(hidden: Tensor) -> Tensor:
    return hidden * (1 + torch.erf(hidden / 2**0.5)) / 2


def norm(weights: Weights, name: str, hidden: Tensor) -> Tensor:
    tokens = []
    for token in hidden:
        centred = token - token.mean()
        tokens.append(centred / (centred.square().mean() + CONFIG.norm_eps).sqrt())
    return torch.stack(tokens) * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def attention(query: Tensor, key: Tensor, value: Tensor, num_heads: int) -> Tensor:
    """Each of [L, size]; the heads are consecutive parts of `size`."""
    size = query.shape[1] // num_heads
    heads = []
    for head in range(num_heads):
        part = slice(head * size, (head + 1) * size)
        tokens = []
        for token in query[:, part]:
            scores = (key[:, part] @ token / size**0.5).exp()
            tokens.append(scores / scores.sum() @ value[:, part])
        heads.append(torch.stack(tokens))
    return torch.cat(heads, dim=1)


def task_specific(own: Weights, prefix: str, chosen: AdapterRecipe, place: int, hidden: Tensor) -> Tensor:
    """TS(h) = V_D g(V_E h); the published code has a GELU after a PAL, and inside low rank."""
    copy = place if chosen.kind in ("pal_unshared", "low_rank") else 0
    published = chosen.flavour == "published"
    small = affine(own, f"{prefix}encode.{copy}", hidden)
    if chosen.kind in PALS:
        query, key, value = affine(own, f"{prefix}inner.{place}", small).chunk(3, dim=1)
        small = attention(query, key, value, chosen.heads or 1)
    elif chosen.kind == "ffn":
        small = gelu(affine(own, f"{prefix}inner.{place}", small))
    elif published:
        small = gelu(small)
    decoded = affine(own, f"{prefix}decode.{copy}", small)
    return gelu(decoded) if published and chosen.kind in PALS else decoded


def bottleneck(own: Weights, name: str, place: int, hidden: Tensor) -> Tensor:
    return affine(own, f"{name}_up.{place}", gelu(affine(own, f"{name}_down.{place}", hidden)))


def merge_lora(shared: Weights, own: Weights, case: Case, number: int) -> Weights:
    """The encoder's weights with W + (alpha / rank) B A in the place of each adapted W of one layer."""
    chosen = case.chosen
    rank = chosen.rank or 8
    merged = dict(shared)
    for linear in chosen.linears or ("query", "value"):
        place = case.layers.index(number)
        change = own[f"up.{linear}"][place].T @ own[f"down.{linear}"][place].T * (chosen.alpha or 16) / rank
        name = f"layers.{number}.{linear}.weight"
        if linear == "output":
            name = f"layers.{number}.attention.output.weight"
        if linear in LINEARS[:3]:
            name = f"layers.{number}.attention.qkv.weight"
            parts = [torch.zeros_like(change)] * 3
            parts[LINEARS.index(linear)] = change
            change = torch.cat(parts)
        merged[name] = merged[name] + change
    return merged


def layer(
    weights: Weights, prefix: str, own: Weights, case: Case, place: int | None, hidden: Tensor
) -> Tensor:
    """h' = LN(h_ffn + h_attn + TS(h)), or with bottlenecks; `place` counts the adapted layers from below."""
    kind = case.chosen.kind if place is not None else "none"
    query, key, value = affine(weights, f"{prefix}attention.qkv", hidden).chunk(3, dim=1)
    mixed = attention(query, key, value, CONFIG.num_heads)
    attended = affine(weights, f"{prefix}attention.output", mixed)
    if place is not None and kind in ("houlsby", "houlsby_pal"):
        attended = attended + bottleneck(own, "attention", place, attended)
    middle = norm(weights, f"{prefix}attention_norm", hidden + attended)
    total = middle + affine(weights, f"{prefix}down", gelu(affine(weights, f"{prefix}up", middle)))
    if place is not None and kind == "houlsby":
        total = total + bottleneck(own, "ffn", place, middle)
    if place is not None and kind == "houlsby_pal":
        total = total + task_specific(own, "pals.", case.chosen, place, middle)
    if place is not None and kind in PARALLEL:
        total = total + task_specific(own, "", case.chosen, place, hidden)
    return norm(weights, f"{prefix}ffn_norm", total)


def on_top(own: Weights, case: Case, hidden: Tensor) -> Tensor:
    """V_D g(V_E h), or a layer; `zero` adds the first to h and fades the second in."""
    chosen, zero = case.chosen, case.chosen.flavour == "zero"
    if chosen.kind == "top_layer":
        changed = layer(own, "layer.", {}, case, None, hidden)
        return hidden + own["gain"] * (changed - hidden) if zero else changed
    small = affine(own, "encode", hidden)
    for number in range(chosen.depth or 1):
        inner = affine(own, f"inner.{number}", small)
        if chosen.kind == "top_attention":
            query, key, value = inner.chunk(3, dim=1)
            inner = affine(own, f"output.{number}", attention(query, key, value, chosen.heads or 1))
        else:
            inner = gelu(inner)
        small = norm(own, f"norm.{number}", small + inner)
    changed = affine(own, "decode", small)
    return hidden + changed if zero else changed


def states_of_row(shared: Weights, own: Weights, case: Case, ids: Tensor, segments: Tensor) -> list[Tensor]:
    """Embeddings and the states after each layer, [L, D], of one row without padding."""
    hidden = shared["embeddings.words.weight"][ids] + shared["embeddings.segments.weight"][segments]
    hidden = hidden + shared["embeddings.positions.weight"][torch.arange(len(ids))]
    states = [norm(shared, "embeddings.norm", hidden)]
    for number in range(NUM_LAYERS):
        place = case.layers.index(number) if number in case.layers else None
        weights = shared
        if case.chosen.kind == "lora" and place is not None:
            weights = merge_lora(shared, own, case, number)
        states.append(layer(weights, f"layers.{number}.", own, case, place, states[-1]))
    if case.chosen.kind.startswith("top_"):
        states[-1] = on_top(own, case, states[-1])
    return states


# --- the comparison --------------------------------------------------------------------------------


def randomise(module: nn.Module, seed: int) -> None:
    """Every value random, those that start at zero too."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            around = float("norm" in name and name.endswith("weight"))
            parameter.copy_(around + torch.randn(parameter.shape, generator=generator) * 0.3)


def in_float64(module: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().double().requires_grad_() for name, p in module.named_parameters()}


def make_tokens() -> Tokens:
    generator = torch.Generator().manual_seed(3)
    lengths = torch.tensor(LENGTHS)
    ids = torch.randint(1, CONFIG.vocab_size, (len(LENGTHS), max(LENGTHS)), generator=generator)
    segments = torch.randint(0, 2, ids.shape, generator=generator)
    padding = torch.arange(max(LENGTHS)) >= lengths[:, None]
    return Tokens(ids.masked_fill(padding, 0), lengths, segments.masked_fill(padding, 0))


def build(case: Case, rows: TaskRows) -> tuple[Encoder, list[nn.Module], Slots]:
    encoder = Encoder(CONFIG)
    plan = plan_adapter(case.chosen, CONFIG)
    adapters: list[nn.Module] = [build_adapter(plan, CONFIG, torch.Generator()) for _ in rows.tasks]
    for seed, module in enumerate([encoder, *adapters]):
        randomise(module, seed)
    return encoder, adapters, bind(adapters, rows, None, NUM_LAYERS, None)


def assert_same_gradients(module: nn.Module, wanted: Mapping[str, Tensor]) -> None:
    for name, parameter in module.named_parameters():
        reference = wanted[name].grad
        if reference is None:
            assert parameter.grad is None, name
        else:
            assert parameter.grad is not None, name
            largest = max(1.0, reference.abs().max().item())
            assert (parameter.grad - reference).abs().max() <= TOLERANCE * largest, name


@pytest.mark.parametrize("sizes", ROWS)
@pytest.mark.parametrize("name", CASES)
def test_a_variant_equals_its_equation_in_every_state_and_gradient(name: str, sizes: str) -> None:
    case, task_rows = CASES[name], ROWS[sizes]
    encoder, adapters, slots = build(case, task_rows)
    tokens = make_tokens()
    assert tokens.segments is not None
    states = encoder.states(tokens, slots=slots)
    weight = torch.randn(states[-1].shape, generator=torch.Generator().manual_seed(4)) * 0.2
    (states[-1] * weight * tokens.mask()[..., None]).sum().backward()  # type: ignore[no-untyped-call]

    shared, owned = in_float64(encoder), [in_float64(adapter) for adapter in adapters]
    loss = torch.zeros((), dtype=torch.float64)
    for task, rows in enumerate(task_rows.slices().values()):
        for row in range(rows.start, rows.stop):
            real = slice(0, LENGTHS[row])
            wanted = states_of_row(
                shared, owned[task], case, tokens.ids[row, real], tokens.segments[row, real]
            )
            for state, reference in zip(states, wanted, strict=True):
                assert (state[row, real] - reference).abs().max() <= TOLERANCE
            loss = loss + (wanted[-1] * weight[row, real]).sum()
    loss.backward()  # type: ignore[no-untyped-call]

    assert_same_gradients(encoder, shared)
    for adapter, own in zip(adapters, owned, strict=True):
        assert_same_gradients(adapter, own)
        assert all(value.grad is not None and value.grad.abs().max() > 1e-4 for value in own.values())


def test_the_variants_are_all_that_a_recipe_can_choose() -> None:
    kinds = AdapterRecipe.model_fields["kind"].annotation
    assert {case.chosen.kind for case in CASES.values()} | {"none"} == set(kinds.__args__)  # type: ignore[union-attr]
