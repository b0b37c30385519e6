"""What a config.json may say, and what is refused by key and value."""

from dataclasses import replace
from typing import Any

import pytest

from polytask.errors import ModelError
from polytask.model.encoder import EncoderConfig
from polytask.model.names import config_from_dict, config_to_dict

SIZES: dict[str, Any] = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 50,
}
BERT: dict[str, Any] = {"model_type": "bert", **SIZES}
DISTILBERT: dict[str, Any] = {
    "model_type": "distilbert",
    "vocab_size": 100,
    "dim": 32,
    "n_layers": 3,
    "n_heads": 4,
    "hidden_dim": 64,
    "max_position_embeddings": 50,
}
MODERNBERT: dict[str, Any] = {"model_type": "modernbert", **SIZES, "pad_token_id": 0}


def read(values: dict[str, Any]) -> EncoderConfig:
    return config_from_dict(values, "config.json")


def test_the_sizes_of_a_bert_are_read() -> None:
    assert read(
        {**BERT, "hidden_act": "relu", "layer_norm_eps": 1e-5, "type_vocab_size": 3}
    ) == EncoderConfig(
        architecture="bert",
        vocab_size=100,
        width=32,
        num_layers=3,
        num_heads=4,
        ffn_width=64,
        max_length=50,
        num_segments=3,
        activation="relu",
        norm_eps=1e-5,
    )


@pytest.mark.parametrize("architecture", ["roberta", "xlm-roberta"])
def test_roberta_counts_positions_from_after_its_padding(architecture: str) -> None:
    config = read({**BERT, "model_type": architecture, "pad_token_id": 4})
    assert (config.first_position, config.max_length, config.pad_id) == (5, 45, 4)
    assert read({**BERT, "model_type": architecture}).max_length == 48  # the family pads with 1


def test_distilbert_has_its_own_keys_and_neither_segments_nor_pooler() -> None:
    config = read(DISTILBERT)
    assert (config.width, config.num_layers, config.num_heads, config.ffn_width) == (32, 3, 4, 64)
    assert (config.num_segments, config.pooler) == (0, False)


@pytest.mark.parametrize(("size", "width"), [(16, 16), (32, 0), (None, 128)])
def test_electra_may_have_narrow_embeddings(size: int | None, width: int) -> None:
    config = read({**BERT, "model_type": "electra", "embedding_size": size})
    assert (config.embedding_width, config.pooler) == (width, False)


@pytest.mark.parametrize(
    "values",
    [
        BERT,
        {**BERT, "model_type": "roberta", "pad_token_id": 3, "type_vocab_size": 1},
        {**BERT, "model_type": "xlm-roberta"},
        {**BERT, "model_type": "electra", "embedding_size": 16, "hidden_act": "gelu_new"},
        {**BERT, "layer_norm_eps": 1e-5, "add_pooling_layer": False},
        DISTILBERT,
        {**MODERNBERT, "norm_eps": 1e-6, "local_attention": 10, "hidden_activation": "gelu_new"},
        {**MODERNBERT, "global_attn_every_n_layers": 2, "global_rope_theta": 9.5, "local_rope_theta": 100},
        {**MODERNBERT, "layer_types": ["sliding_attention"] * 2 + ["full_attention"]},
        {**MODERNBERT, "layer_types": ["sliding_attention"] * 3},
    ],
)
def test_what_is_written_is_read_back(values: dict[str, Any]) -> None:
    config = read(values)
    assert read(config_to_dict(config)) == config
    assert read(config_to_dict(replace(config, num_layers=1))) != config


@pytest.mark.parametrize(
    ("saved", "architecture"),
    [
        ("BertForMaskedLM", "bert"),
        ("RobertaForMaskedLM", "roberta"),
        ("XLMRobertaModel", "xlm-roberta"),
        ("ElectraForPreTraining", "electra"),
    ],
)
def test_a_config_older_than_model_type_is_known_by_its_class(saved: str, architecture: str) -> None:
    assert read({**SIZES, "architectures": [saved]}).architecture == architecture


def test_a_config_in_the_format_of_the_first_bert_is_one() -> None:
    assert read({**SIZES, "hidden_act": "gelu"}).architecture == "bert"


@pytest.mark.parametrize(
    "values",
    [
        {"model_type": "deberta-v2"},
        {"model_type": "modernbert-decoder"},
        {"model_type": "gpt2", **SIZES},
        {**SIZES, "architectures": ["T5Model"]},
    ],
)
def test_other_architectures_are_refused_by_name(values: dict[str, Any]) -> None:
    name = values.get("model_type") or values["architectures"][0]
    with pytest.raises(ModelError, match=f"'{name}' cannot be loaded, only bert, roberta, xlm-roberta, "):
        read(values)


@pytest.mark.parametrize("name", ["mpnet", "deberta", "deberta-v2"])
def test_well_known_encoders_are_refused_with_the_reason(name: str) -> None:
    with pytest.raises(ModelError, match=f"'{name}' cannot be loaded, only .*, modernbert: its attention "):
        read({**BERT, "model_type": name})


def test_a_near_miss_is_suggested() -> None:
    with pytest.raises(ModelError, match="did you mean 'roberta'"):
        read({**BERT, "model_type": "robberta"})


@pytest.mark.parametrize("values", [{}, SIZES, {"model_type": None}, {"architectures": []}])
def test_a_config_that_names_no_architecture_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="model_type is missing"):
        read(values)


@pytest.mark.parametrize(
    ("key", "value"),
    [("position_embedding_type", "relative_key"), ("is_decoder", True), ("add_cross_attention", True)],
)
def test_what_the_encoder_does_not_compute_is_refused_by_key_and_value(key: str, value: object) -> None:
    with pytest.raises(ModelError, match=f"{key} should be .* Found {value!r}"):
        read({**BERT, key: value})


@pytest.mark.parametrize("value", ["swish", "", None, 3, ["gelu"], {}])
@pytest.mark.parametrize(
    ("values", "key"),
    [(BERT, "hidden_act"), (DISTILBERT, "activation"), (MODERNBERT, "hidden_activation")],
)
def test_an_unknown_activation_is_refused(values: dict[str, Any], key: str, value: object) -> None:
    with pytest.raises(ModelError, match=f"{key} should be one of gelu, "):
        read({**values, key: value})


@pytest.mark.parametrize("value", [-1, 0, 10**9, 10**400, 2.0, "8", True, None, [], {}, float("nan")])
@pytest.mark.parametrize("key", SIZES)
def test_a_size_that_cannot_be_is_refused_by_key(key: str, value: object) -> None:
    with pytest.raises(ModelError, match=f"config.json: {key} should be a whole number from 1 to "):
        read({**BERT, key: value})


@pytest.mark.parametrize("key", SIZES)
def test_a_size_that_is_missing_is_refused_by_key(key: str) -> None:
    with pytest.raises(ModelError, match=f"{key} should be .* it is missing"):
        read({name: value for name, value in BERT.items() if name != key})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"num_attention_heads": 5},
            "hidden_size should be a multiple of num_attention_heads. Found 32 and 5",
        ),
        ({"pad_token_id": 100}, "pad_token_id should be .* from 0 to 99"),
        ({"pad_token_id": -1}, "pad_token_id should be .* from 0 to 99"),
        ({"type_vocab_size": 0}, "type_vocab_size should be .* from 1"),
        (
            {"model_type": "roberta", "max_position_embeddings": 2},
            "max_position_embeddings should be .* from 3",
        ),
        ({"model_type": "electra", "embedding_size": -4}, "embedding_size should be .* from 1"),
        ({"layer_norm_eps": 0.0}, "layer_norm_eps should be a number between 0 and 1. Found 0.0"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps should be"),
        ({"layer_norm_eps": "small"}, "layer_norm_eps should be"),
    ],
)
def test_values_that_do_not_fit_together_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read({**BERT, **change})


def test_a_modernbert_is_read_with_the_defaults_of_its_family() -> None:
    config = read({**MODERNBERT, "num_hidden_layers": 8, "position_embedding_type": "sans_pos"})
    assert (config.global_layers, config.window) == ((0, 3, 6), 64)
    assert (config.global_theta, config.local_theta, config.norm_eps) == (160_000.0, 10_000.0, 1e-5)
    assert (config.num_segments, config.pooler, config.max_length, config.activation) == (
        0,
        False,
        50,
        "gelu",
    )
    assert (config.up_width, config.ffn_width) == (128, 64)


def test_todays_keys_of_a_modernbert_count_for_more_than_those_of_older_files() -> None:
    theta = {"rope_type": "default", "rope_theta": 700.0}
    new = {"layer_types": ["sliding_attention"] * 3, "rope_parameters": {"full_attention": theta}}
    old = {"global_attn_every_n_layers": 1, "global_rope_theta": 5.0, "local_rope_theta": 6.0}
    config = read({**MODERNBERT, **old, **new})
    assert (config.global_layers, config.global_theta, config.local_theta) == ((), 700.0, 6.0)
    assert read({**MODERNBERT, **old}).global_layers == (0, 1, 2)


def test_local_positions_of_null_turn_as_global_ones_do() -> None:
    config = read({**MODERNBERT, "global_rope_theta": 70.0, "local_rope_theta": None})
    assert (config.global_theta, config.local_theta) == (70.0, 70.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attention_bias": True}, "attention_bias should be False. Found True"),
        ({"mlp_bias": True}, "mlp_bias should be False"),
        ({"norm_bias": True}, "norm_bias should be False"),
        ({"rope_scaling": {"type": "yarn"}}, "rope_scaling should be None"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "'full_attention' a rope_type of"),
        ({"rope_parameters": [1]}, "rope_parameters should give"),
        ({"rope_parameters": {"sliding_attention": {"rope_theta": "x"}}}, "rope_theta should be a number"),
        ({"global_rope_theta": 0.5}, "global_rope_theta should be a number above 1"),
        ({"global_rope_theta": float("nan")}, "global_rope_theta should be a number above 1"),
        ({"local_rope_theta": True}, "local_rope_theta should be a number above 1"),
        ({"layer_types": ["full_attention"] * 2}, "for each of the 3 layers"),
        ({"layer_types": ["full_attention", "chunked_attention", "full_attention"]}, "layer_types should be"),
        ({"layer_types": [[], {}, None]}, "layer_types should be"),
        ({"global_attn_every_n_layers": 0}, "global_attn_every_n_layers should be a whole number from 1"),
        ({"local_attention": 1}, "local_attention should be a whole number from 2"),
        ({"hidden_size": 36, "num_attention_heads": 4}, "even multiple of num_attention_heads. .* 36 and 4"),
        ({"pad_token_id": None}, "pad_token_id should be a whole number from 0 to 99"),
        ({"norm_eps": 1}, "norm_eps should be a number between 0 and 1"),
    ],
)
def test_a_modernbert_of_another_kind_is_refused_by_key_and_value(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        read({**MODERNBERT, **change})
