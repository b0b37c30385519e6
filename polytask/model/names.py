"""How Hugging Face writes an encoder down: the keys of its config.json and the names of its tensors."""

from collections.abc import Mapping
from reprlib import repr as short
from typing import Any

from polytask.errors import ModelError, did_you_mean, one_of
from polytask.model.config import ACTIVATIONS, Architecture, EncoderConfig
from polytask.model.config_values import fraction, whole_number
from polytask.model.names_modernbert import MODERNBERT_TENSORS, sight_to_dict, with_sight

MODEL_CLASSES: dict[Architecture, str] = {
    "bert": "BertModel",
    "roberta": "RobertaModel",
    "xlm-roberta": "XLMRobertaModel",
    "distilbert": "DistilBertModel",
    "electra": "ElectraModel",
    "modernbert": "ModernBertModel",
}
PREFIXES: dict[Architecture, str] = {
    "bert": "bert.",
    "roberta": "roberta.",
    "xlm-roberta": "roberta.",
    "distilbert": "distilbert.",
    "electra": "electra.",
    "modernbert": "model.",
}
NOT_COMPUTED = {
    "mpnet": "its attention adds a learned bias for the distance between two tokens",
    "deberta": "its attention weighs words and distances apart",
    "deberta-v2": "its attention weighs words and distances apart",
}
POOLED = ("bert", "roberta", "xlm-roberta")
OFFSET_POSITIONS = ("roberta", "xlm-roberta")  # positions start after the padding index
WITHOUT_SEGMENTS = ("distilbert", "modernbert")

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
_CONFIG_KEYS = {
    "distilbert": _DISTILBERT_KEYS,
    "modernbert": {**_BERT_KEYS, "activation": "hidden_activation"},
}
_PAD_ID = {"roberta": 1, "xlm-roberta": 1, "modernbert": 50283}  # where the file names none; otherwise 0
# The largest value believed for each size, well above that of any published encoder.
_LARGEST = {"vocab_size": 2**22, "num_layers": 256, "num_heads": 1024, "ffn_width": 2**17}
_LARGEST_WIDTH, _LARGEST_POSITIONS, _LARGEST_SEGMENTS = 2**14, 2**17, 1024
# What would change the numbers in a way that this encoder does not compute.
_ONLY_ALLOWED: dict[str, object] = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
_ONLY_ALLOWED_MODERNBERT: dict[str, object] = {
    "attention_bias": False,
    "mlp_bias": False,
    "norm_bias": False,
    "rope_scaling": None,
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
_LAYERS: dict[Architecture, tuple[str, dict[str, tuple[str, ...]]]] = {
    "distilbert": ("transformer.layer", _DISTILBERT_TENSORS),
    "modernbert": ("layers", MODERNBERT_TENSORS),
}


def config_from_dict(values: Mapping[str, Any], source: object) -> EncoderConfig:
    """The encoder that a Hugging Face config.json describes; `source` names the file in messages."""
    architecture = _architecture(values, source)
    modernbert = architecture == "modernbert"
    for key, allowed in (_ONLY_ALLOWED_MODERNBERT if modernbert else _ONLY_ALLOWED).items():
        if values.get(key, allowed) not in (allowed, None):
            raise ModelError(f"{source}: {key} should be {allowed!r}. Found {short(values[key])}.")
    keys = _CONFIG_KEYS.get(architecture, _BERT_KEYS)

    sizes = {
        word: whole_number(values, keys.get(word, word), limit, source) for word, limit in _LARGEST.items()
    }
    width = whole_number(values, keys["width"], _LARGEST_WIDTH, source)
    if width % sizes["num_heads"]:
        raise ModelError(
            f"{source}: {keys['width']} should be a multiple of {keys['num_heads']}. "
            f"Found {width} and {sizes['num_heads']}."
        )
    if modernbert and width // sizes["num_heads"] % 2:
        raise ModelError(
            f"{source}: {keys['width']} should be an even multiple of {keys['num_heads']}, whose values turn "
            f"in pairs. Found {width} and {sizes['num_heads']}."
        )
    pad_default = _PAD_ID.get(architecture, 0)
    pad_id = whole_number(
        values, "pad_token_id", sizes["vocab_size"] - 1, source, least=0, default=pad_default
    )
    first_position = pad_id + 1 if architecture in OFFSET_POSITIONS else 0
    positions = whole_number(
        values, "max_position_embeddings", _LARGEST_POSITIONS, source, least=first_position + 1
    )
    embedding_width = width
    if architecture == "electra":
        embedding_width = whole_number(values, "embedding_size", _LARGEST_WIDTH, source, default=128)
    activation = values.get(keys["activation"], "gelu")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise ModelError(f"{source}: {keys['activation']} {one_of(ACTIVATIONS, activation)}")
    config = EncoderConfig(
        architecture=architecture,
        width=width,
        max_length=positions - first_position,
        num_segments=0
        if architecture in WITHOUT_SEGMENTS
        else whole_number(values, "type_vocab_size", _LARGEST_SEGMENTS, source, default=2),
        embedding_width=embedding_width if embedding_width != width else 0,
        first_position=first_position,
        pad_id=pad_id,
        activation=activation,
        norm_eps=_norm_eps(values, architecture, source),
        pooler=architecture in POOLED and values.get("add_pooling_layer") is not False,
        vocab_size=sizes["vocab_size"],
        num_layers=sizes["num_layers"],
        num_heads=sizes["num_heads"],
        ffn_width=sizes["ffn_width"],
    )
    return with_sight(config, values, source) if modernbert else config


def config_to_dict(config: EncoderConfig) -> dict[str, Any]:
    """The config.json of an encoder; `config_from_dict` is its inverse."""
    keys = _CONFIG_KEYS.get(config.architecture, _BERT_KEYS)
    values: dict[str, Any] = {
        "architectures": [MODEL_CLASSES[config.architecture]],
        "model_type": config.architecture,
        "vocab_size": config.vocab_size,
        **{key: getattr(config, word) for word, key in keys.items()},
        "max_position_embeddings": config.first_position + config.max_length,
        "pad_token_id": config.pad_id,
    }
    if config.architecture == "modernbert":
        values |= {"norm_eps": config.norm_eps, **sight_to_dict(config)}
    elif config.architecture != "distilbert":
        values |= {"layer_norm_eps": config.norm_eps, "type_vocab_size": config.num_segments}
    if config.architecture == "electra":
        values["embedding_size"] = config.embedding_width or config.width
    if config.architecture in POOLED and not config.pooler:
        values["add_pooling_layer"] = False  # transformers takes this as an argument; it ignores the key
    return values


def tensor_names(config: EncoderConfig) -> dict[str, tuple[str, ...]]:
    """Each of the encoder's tensors -> the Hugging Face tensors that it is made of, stacked in this order."""
    place, layer = _LAYERS.get(config.architecture, ("encoder.layer", _BERT_TENSORS))
    words = "tok_embeddings" if config.architecture == "modernbert" else "word_embeddings"
    norm = "norm" if config.architecture == "modernbert" else "LayerNorm"
    modules: dict[str, tuple[str, ...]] = {
        "embeddings.words": (f"embeddings.{words}",),
        "embeddings.positions": ("embeddings.position_embeddings",),
        "embeddings.segments": ("embeddings.token_type_embeddings",),
        "embeddings.norm": (f"embeddings.{norm}",),
        "embeddings.project": ("embeddings_project",),
    }
    for number in range(config.num_layers):
        for ours, parts in layer.items():
            modules[f"layers.{number}.{ours}"] = tuple(f"{place}.{number}.{part}" for part in parts)
    modules |= {"pooler": ("pooler.dense",), "final_norm": ("final_norm",)}
    return {
        f"{ours}.{kind}": tuple(f"{part}.{kind}" for part in parts)
        for ours, parts in modules.items()
        for kind in ("weight", "bias")
    }


def _norm_eps(values: Mapping[str, Any], architecture: Architecture, source: object) -> float:
    match architecture:
        case "distilbert":
            return 1e-12
        case "modernbert":
            return fraction(values, "norm_eps", source, 1e-5)
        case _:
            return fraction(values, "layer_norm_eps", source, 1e-12)


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
    why = f": {NOT_COMPUTED[found]}." if isinstance(found, str) and found in NOT_COMPUTED else ""
    raise ModelError(
        f"{source}: encoders of architecture {short(found)} cannot be loaded, only "
        f"{', '.join(MODEL_CLASSES)}{why or did_you_mean(str(found), MODEL_CLASSES, '; ')}"
    )
