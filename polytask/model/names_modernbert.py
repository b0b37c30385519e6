"""What Hugging Face writes down of a ModernBERT alone: which layers see how far, and how positions turn."""

from collections.abc import Mapping
from dataclasses import replace
from reprlib import repr as short
from typing import Any

from polytask.errors import ModelError
from polytask.model.config import EncoderConfig
from polytask.model.config_values import base, whole_number

LARGEST_WINDOW = 2**18
GLOBAL_EVERY = 3  # what a config that says nothing means
GLOBAL, LOCAL = "full_attention", "sliding_attention"
DEFAULT_THETA = {GLOBAL: EncoderConfig.global_theta, LOCAL: EncoderConfig.local_theta}
OLD_THETA = {GLOBAL: "global_rope_theta", LOCAL: "local_rope_theta"}

MODERNBERT_TENSORS: dict[str, tuple[str, ...]] = {
    "attention_norm": ("attn_norm",),
    "attention.qkv": ("attn.Wqkv",),
    "attention.output": ("attn.Wo",),
    "ffn_norm": ("mlp_norm",),
    "up": ("mlp.Wi",),
    "down": ("mlp.Wo",),
}


def with_sight(config: EncoderConfig, values: Mapping[str, Any], source: object) -> EncoderConfig:
    """The config with the fields that only a ModernBERT has; older files name them in other keys."""
    window = whole_number(values, "local_attention", LARGEST_WINDOW, source, least=2, default=128)
    return replace(
        config,
        global_layers=_global_layers(values, config.num_layers, source),
        window=window // 2,
        global_theta=_theta(values, GLOBAL, source),
        local_theta=_theta(values, LOCAL, source),
    )


def sight_to_dict(config: EncoderConfig) -> dict[str, Any]:
    """The keys of today's `transformers`, and those that it read before version 5."""
    layers = range(config.num_layers)
    thetas = {GLOBAL: config.global_theta, LOCAL: config.local_theta}
    values: dict[str, Any] = {
        "layer_types": [GLOBAL if number in config.global_layers else LOCAL for number in layers],
        "local_attention": 2 * config.window,
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in thetas.items()
        },
        **{OLD_THETA[kind]: theta for kind, theta in thetas.items()},
        # The tokenizer knows these; left out, they would be those of the first ModernBERT.
        **{f"{token}_token_id": None for token in ("bos", "eos", "cls", "sep")},
    }
    every = config.global_layers[1] if len(config.global_layers) > 1 else config.num_layers
    if config.global_layers == tuple(range(0, config.num_layers, every)):
        values["global_attn_every_n_layers"] = every
    return values


def _global_layers(values: Mapping[str, Any], num_layers: int, source: object) -> tuple[int, ...]:
    kinds = values.get("layer_types")
    if kinds is None:
        key = "global_attn_every_n_layers"
        every = whole_number(values, key, max(num_layers, GLOBAL_EVERY), source, default=GLOBAL_EVERY)
        return tuple(range(0, num_layers, every))
    known = isinstance(kinds, list) and all(kind in (GLOBAL, LOCAL) for kind in kinds)
    if not known or len(kinds) != num_layers:
        raise ModelError(
            f"{source}: layer_types should be {GLOBAL!r} or {LOCAL!r} for each of the {num_layers} layers. "
            f"Found {short(kinds)}."
        )
    return tuple(number for number, kind in enumerate(kinds) if kind == GLOBAL)


def _theta(values: Mapping[str, Any], kind: str, source: object) -> float:
    found = values.get("rope_parameters")
    kinds = {} if found is None else found
    own = kinds.get(kind) if isinstance(kinds, dict) else found
    own = {} if own is None else own
    if not isinstance(own, dict) or own.get("rope_type", "default") != "default":
        raise ModelError(
            f"{source}: rope_parameters should give {kind!r} a rope_type of 'default'. Found {short(own)}."
        )
    if "rope_theta" in own:
        return base(own, "rope_theta", source, DEFAULT_THETA[kind])
    if kind == LOCAL and OLD_THETA[LOCAL] in values and values[OLD_THETA[LOCAL]] is None:
        return _theta(values, GLOBAL, source)  # as `transformers` 4 read it
    return base(values, OLD_THETA[kind], source, DEFAULT_THETA[kind])
