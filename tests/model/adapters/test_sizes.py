"""What task-specific layers add, at BERT-base size and scaled to others; shapes only, no weights."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from polytask.choices import AdapterRecipe
from polytask.errors import RecipeError
from polytask.model.adapters.build import build_adapter, first_layer, plan_adapter
from polytask.model.encoder import Encoder, EncoderConfig

BERT_BASE = EncoderConfig(
    architecture="bert",
    vocab_size=30_522,
    width=768,
    num_layers=12,
    num_heads=12,
    ffn_width=3072,
    max_length=512,
)
MINILM = replace(BERT_BASE, width=384, num_layers=6, ffn_width=1536)
D = 768  # BERT-base's width
LAYER = 7_087_872  # parameters of one of its layers
EIGHT = 8  # the tasks of the paper's ratios


def linear(num_inputs: int, num_outputs: int) -> int:
    return num_inputs * num_outputs + num_outputs


def projections(size: int) -> int:
    """V_E and V_D with their biases."""
    return linear(D, size) + linear(size, D)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def plan_of(config: EncoderConfig, **options: Any) -> Any:
    return plan_adapter(AdapterRecipe(**options), config)


def build(config: EncoderConfig, **options: Any) -> nn.Module:
    with torch.device("meta"):
        return build_adapter(plan_of(config, **options), config, torch.Generator())


def added(**options: Any) -> int:
    """The parameters of one task."""
    return count(build(BERT_BASE, **options))


def encoder_parts(config: EncoderConfig = BERT_BASE) -> tuple[int, int]:
    """All parameters of the encoder, and those of its layers and pooler alone."""
    with torch.device("meta"):
        encoder = Encoder(config)
        return count(encoder), count(encoder) - count(encoder.embeddings)


def ratio(**options: Any) -> float:
    whole, _ = encoder_parts()
    return (whole + EIGHT * added(**options)) / whole


def test_the_encoder_these_ratios_are_of_is_bert_base() -> None:
    assert encoder_parts() == (109_482_240, 12 * LAYER + linear(D, D))
    with torch.device("meta"):
        assert count(Encoder(BERT_BASE).layers[0]) == LAYER


@pytest.mark.parametrize("flavour", ["zero", "paper", "published"])
def test_pals_add_the_papers_number_of_parameters_a_task(flavour: str) -> None:
    assert added(kind="pal", flavour=flavour) == 1_819_836


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("pal", 1.13),
        ("pal_unshared", 1.13),
        ("pal_top", 1.13),
        ("pal_bottom", 1.13),
        ("low_rank", 1.13),
        ("top_attention", 1.10),
    ],
)
def test_eight_tasks_have_the_papers_ratio_to_one_encoder(kind: str, wanted: float) -> None:
    assert abs(ratio(kind=kind) - wanted) <= 0.01


def test_a_layer_on_top_has_the_papers_ratio_without_the_embeddings() -> None:
    """The paper's 1.66 is 8/12: eight layers to the twelve of the encoder (1.66 with its pooler too).

    Of all parameters, embeddings included, which is how the other ratios come out, it is 1.52.
    """
    whole, without_embeddings = encoder_parts()
    extra = EIGHT * added(kind="top_layer", flavour="paper")
    assert abs((without_embeddings + extra) / without_embeddings - 1.66) <= 0.01
    assert abs((whole + extra) / whole - 1.52) <= 0.01


@pytest.mark.parametrize("flavour", ["paper", "published"])
def test_a_layer_on_top_is_a_layer_of_the_encoder(flavour: str) -> None:
    assert added(kind="top_layer", flavour=flavour) == LAYER


def test_a_layer_on_top_that_fades_in_has_one_parameter_more() -> None:
    assert added(kind="top_layer", flavour="zero") == added(kind="top_layer") == LAYER + 1


def test_every_variant_has_the_parameters_of_its_equation() -> None:
    norm = 2
    attention = [linear(204, 3 * 204), linear(204, 204), norm * 204]
    wanted = {
        "pal": projections(204) + 12 * linear(204, 3 * 204),
        "pal_unshared": 12 * (projections(84) + linear(84, 3 * 84)),
        "pal_top": projections(276) + 6 * linear(276, 3 * 276),
        "pal_bottom": projections(276) + 6 * linear(276, 3 * 276),
        "low_rank": 12 * projections(100),
        "ffn": projections(204) + 12 * linear(204, 204),
        "houlsby": 12 * 2 * projections(50),
        "houlsby_pal": 12 * projections(50) + projections(156) + 12 * linear(156, 3 * 156),
        "top_attention": projections(204) + 6 * sum(attention),
        "top_ffn": projections(408) + linear(408, 408) + norm * 408,
        "lora": 12 * 2 * (D * 8 + 8 * D),
    }
    assert {kind: added(kind=kind) for kind in wanted} == wanted


def test_two_feed_forward_layers_on_top_are_narrower_than_one() -> None:
    assert added(kind="top_ffn", depth=2) == projections(252) + 2 * (linear(252, 252) + 2 * 252)


@pytest.mark.parametrize("linear_name", ["query", "key", "value", "output", "up", "down"])
def test_lora_adds_two_low_rank_matrices_to_each_linear_layer(linear_name: str) -> None:
    inputs, outputs = {"up": (D, 3072), "down": (3072, D)}.get(linear_name, (D, D))
    assert added(kind="lora", rank=4, linears=(linear_name,)) == 12 * 4 * (inputs + outputs)


def test_sizes_are_scaled_to_the_encoder_and_stay_multiples_of_the_heads() -> None:
    """Half as wide, half the size: 204 becomes 102, in six heads of 17."""
    half = {"pal": 102, "pal_unshared": 42, "pal_top": 138, "low_rank": 50, "ffn": 102, "houlsby": 25}
    for kind, size in half.items():
        assert plan_of(MINILM, kind=kind).size == size, kind
    for width in range(4, 800, 4):
        narrow = replace(BERT_BASE, width=width)
        for kind in ("pal", "pal_unshared", "pal_top", "houlsby_pal", "top_attention"):
            plan = plan_of(narrow, kind=kind)
            inner = plan.pals if kind == "houlsby_pal" else plan
            assert inner.size > 0
            assert inner.size % inner.heads == 0


def test_the_papers_numbers_of_heads_are_the_defaults() -> None:
    pals = ("pal", "pal_unshared", "pal_top", "pal_bottom")
    assert {plan_of(BERT_BASE, kind=kind).heads for kind in pals} == {6}
    assert plan_of(BERT_BASE, kind="houlsby_pal").pals.heads == 6
    assert plan_of(BERT_BASE, kind="top_attention").heads == 12


@pytest.mark.parametrize(
    ("options", "layers"),
    [
        ({"kind": "pal"}, tuple(range(12))),
        ({"kind": "pal_top"}, tuple(range(6, 12))),
        ({"kind": "pal_bottom"}, tuple(range(6))),
        ({"kind": "pal_top", "layers": "top-2"}, (10, 11)),
        ({"kind": "pal", "layers": [7, 0, 7]}, (0, 7)),
        ({"kind": "lora", "layers": "bottom-1"}, (0,)),
        ({"kind": "houlsby", "layers": "11"}, (11,)),
        ({"kind": "houlsby_pal", "layers": "all"}, tuple(range(12))),
    ],
)
def test_layers_are_those_that_the_recipe_names(options: dict[str, Any], layers: tuple[int, ...]) -> None:
    plan = plan_of(BERT_BASE, **options)
    assert plan.layers == layers
    assert getattr(plan, "pals", None) is None or plan.pals.layers == layers
    assert first_layer(build(BERT_BASE, **options), BERT_BASE.num_layers) == layers[0]


@pytest.mark.parametrize("kind", ["top_attention", "top_ffn", "top_layer"])
def test_what_is_on_top_comes_after_the_last_layer(kind: str) -> None:
    assert first_layer(build(MINILM, kind=kind), MINILM.num_layers) == MINILM.num_layers


def test_the_middle_of_an_odd_number_of_layers_belongs_to_both_halves() -> None:
    three = replace(BERT_BASE, num_layers=3)
    assert plan_of(three, kind="pal_top").layers == (1, 2)
    assert plan_of(three, kind="pal_bottom").layers == (0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "pal", "layers": "top-13"}, r"adapter\.layers .* at most the 12 layers.*'top-13'"),
        ({"kind": "lora", "layers": [3, 12]}, r"adapter\.layers .* from 0 to 11\. Found 12"),
        ({"kind": "pal", "size": 100}, r"adapter\.size .* multiple of adapter\.heads, 6\. Found 100"),
        ({"kind": "houlsby_pal", "size": 20, "heads": 3}, r"multiple of adapter\.heads, 3\. Found 20"),
        ({"kind": "top_attention", "size": 100}, r"multiple of adapter\.heads, 12\. Found 100"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_by_their_key(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        plan_adapter(AdapterRecipe(**options), BERT_BASE)
