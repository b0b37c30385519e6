"""How Hugging Face writes an encoder down: the keys of its config.json and the names of its tensors."""

from collections.abc import Mapping
from reprlib import repr as short
from typing import Any

from polytask.errors import ModelError, did_you_mean, one_of
from polytask.model.config import ACTIVATIONS, Architecture, EncoderConfig

MODEL_CLASSES: dict[Architecture, str] = {
    "bert": "BertModel",
    "roberta": "RobertaModel",
    "xlm-roberta": "XLMRobertaModel",
    "distilbert": "DistilBertModel",
    "electra": "ElectraModel",
}
PREFIXES: dict[Architecture, str] = {
    "bert": "bert.",
    "roberta": "roberta.",
    "xlm-roberta": "roberta.",
    "distilbert": "distilbert.",
    "electra": "electra.",
}
POOLED = ("bert", "roberta", "xlm-roberta")
OFFSET_POSITIONS = ("roberta", "xlm-roberta")  # positions start after the padding index

_BERT_KEYS = {
    "width": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "ffn_width": "intermediate_size",
    "activation": "hidden_act",
}
_DISTILBERT_KEYS = {
    "width": "dim",
    "num_layers": "n_layers",
    "num_heads": "n_heads",
    "ffn_width": "hidden_dim",
    "activation": "activation",
}
# The largest value believed for each size, well above that of any published encoder.
_LARGEST = {"vocab_size": 2**22, "num_layers": 256, "num_heads": 1024, "ffn_width": 2**17}
_LARGEST_WIDTH, _LARGEST_POSITIONS, _LARGEST_SEGMENTS = 2**14, 2**17, 1024
# What would change the numbers in a way that this encoder does not compute.
_ONLY_ALLOWED: dict[str, object] = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}

_BERT_TENSORS = {
    "attention.qkv": tuple(f"attention.self.{part}" for part in ("query", "key", "value")),
    "attention.output": ("attention.output.dense",),
    "attention_norm": ("attention.output.LayerNorm",),
    "up": ("intermediate.dense",),
    "down": ("output.dense",),
    "ffn_norm": ("output.LayerNorm",),
}
_DISTILBERT_TENSORS = {
    "attention.qkv": tuple(f"attention.{part}_lin" for part in "qkv"),
    "attention.output": ("attention.out_lin",),
    "attention_norm": ("sa_layer_norm",),
    "up": ("ffn.lin1",),
    "down": ("ffn.lin2",),
    "ffn_norm": ("output_layer_norm",),
}


def config_from_dict(values: Mapping[str, Any], source: object) -> EncoderConfig:
    """The encoder that a Hugging Face config.json describes; `source` names the file in messages."""
    architecture = _architecture(values, source)
    for key, allowed in _ONLY_ALLOWED.items():
        if values.get(key, allowed) not in (allowed, None):
            raise ModelError(f"{source}: {key} should be {allowed!r}. Found {short(values[key])}.")
    keys = _config_keys(architecture)
    distilbert = architecture == "distilbert"

    sizes = {word: _size(values, keys.get(word, word), limit, source) for word, limit in _LARGEST.items()}
    width = _size(values, keys["width"], _LARGEST_WIDTH, source)
    if width % sizes["num_heads"]:
        raise ModelError(
            f"{source}: {keys['width']} should be a multiple of {keys['num_heads']}. "
            f"Found {width} and {sizes['num_heads']}."
        )
    offset = architecture in OFFSET_POSITIONS
    pad_id = _size(values, "pad_token_id", sizes["vocab_size"] - 1, source, least=0, default=int(offset))
    first_position = pad_id + 1 if offset else 0
    positions = _size(values, "max_position_embeddings", _LARGEST_POSITIONS, source, least=first_position + 1)
    embedding_width = width
    if architecture == "electra":
        embedding_width = _size(values, "embedding_size", _LARGEST_WIDTH, source, default=128)
    activation = values.get(keys["activation"], "gelu")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise ModelError(f"{source}: {keys['activation']} {one_of(ACTIVATIONS, activation)}")
    return EncoderConfig(
        architecture=architecture,
        width=width,
        max_length=positions - first_position,
        num_segments=0
        if distilbert
        else _size(values, "type_vocab_size", _LARGEST_SEGMENTS, source, default=2),
        embedding_width=embedding_width if embedding_width != width else 0,
        first_position=first_position,
        pad_id=pad_id,
        activation=activation,
        norm_eps=1e-12 if distilbert else _norm_eps(values, source),
        pooler=architecture in POOLED and values.get("add_pooling_layer") is not False,
        **sizes,
    )


def config_to_dict(config: EncoderConfig) -> dict[str, Any]:
    """The config.json of an encoder; `config_from_dict` is its inverse."""
    keys = _config_keys(config.architecture)
    values: dict[str, Any] = {
        "architectures": [MODEL_CLASSES[config.architecture]],
        "model_type": config.architecture,
        "vocab_size": config.vocab_size,
        **{key: getattr(config, word) for word, key in keys.items()},
        "max_position_embeddings": config.first_position + config.max_length,
        "pad_token_id": config.pad_id,
    }
    if config.architecture != "distilbert":
        values |= {"layer_norm_eps": config.norm_eps, "type_vocab_size": config.num_segments}
    if config.architecture == "electra":
        values["embedding_size"] = config.embedding_width or config.width
    if config.architecture in POOLED and not config.pooler:
        values["add_pooling_layer"] = False  # transformers takes this as an argument; it ignores the key
    return values


def tensor_names(config: EncoderConfig) -> dict[str, tuple[str, ...]]:
    """Each of the encoder's tensors -> the Hugging Face tensors that it is made of, stacked in this order."""
    distilbert = config.architecture == "distilbert"
    modules: dict[str, tuple[str, ...]] = {
        "embeddings.words": ("embeddings.word_embeddings",),
        "embeddings.positions": ("embeddings.position_embeddings",),
        "embeddings.segments": ("embeddings.token_type_embeddings",),
        "embeddings.norm": ("embeddings.LayerNorm",),
        "embeddings.project": ("embeddings_project",),
    }
    for number in range(config.num_layers):
        place = f"transformer.layer.{number}" if distilbert else f"encoder.layer.{number}"
        for ours, parts in (_DISTILBERT_TENSORS if distilbert else _BERT_TENSORS).items():
            modules[f"layers.{number}.{ours}"] = tuple(f"{place}.{part}" for part in parts)
    modules["pooler"] = ("pooler.dense",)
    return {
        f"{ours}.{kind}": tuple(f"{part}.{kind}" for part in parts)
        for ours, parts in modules.items()
        for kind in ("weight", "bias")
    }


def _config_keys(architecture: Architecture) -> dict[str, str]:
    return _DISTILBERT_KEYS if architecture == "distilbert" else _BERT_KEYS


def _architecture(values: Mapping[str, Any], source: object) -> Architecture:
    """From `model_type`, or in files older than that key from the class that was saved."""
    found = values.get("model_type")
    saved = values.get("architectures")
    if found is None and isinstance(saved, list) and saved:
        stems = {name.removesuffix("Model"): architecture for architecture, name in MODEL_CLASSES.items()}
        found = next((stems[stem] for stem in stems if str(saved[0]).startswith(stem)), str(saved[0]))
    elif found is None and set(_BERT_KEYS.values()) <= set(values):
        found = "bert"  # the format of the original BERT release, which names neither (SciBERT)
    for architecture in MODEL_CLASSES:
        if found == architecture:
            return architecture
    if found is None:
        raise ModelError(f"{source}: model_type is missing; it should be one of {', '.join(MODEL_CLASSES)}.")
    raise ModelError(
        f"{source}: encoders of architecture {short(found)} cannot be loaded, only "
        f"{', '.join(MODEL_CLASSES)}{did_you_mean(str(found), MODEL_CLASSES, '; ')}"
    )


def _size(
    values: Mapping[str, Any],
    key: str,
    most: int,
    source: object,
    *,
    least: int = 1,
    default: int | None = None,
) -> int:
    found = values.get(key)
    if found is None:
        found = default
    if isinstance(found, int) and not isinstance(found, bool) and least <= found <= most:
        return found
    shown = "it is missing" if key not in values else f"Found {short(values[key])}"
    raise ModelError(f"{source}: {key} should be a whole number from {least} to {most}. {shown}.")


def _norm_eps(values: Mapping[str, Any], source: object) -> float:
    found = values.get("layer_norm_eps", 1e-12)
    if isinstance(found, float) and 0 < found < 1:
        return found
    raise ModelError(f"{source}: layer_norm_eps should be a number between 0 and 1. Found {short(found)}.")
