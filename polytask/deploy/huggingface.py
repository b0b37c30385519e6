"""A model as folders that `transformers` loads: the encoder, and a classifier for each task that fits one."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from polytask.choices import AdapterRecipe
from polytask.data.tokenizer import Tokenizer
from polytask.files import write_bytes, write_whole
from polytask.model.architectures import AnyEncoder
from polytask.model.checkpoint_files import read_tensors
from polytask.model.heads import Head
from polytask.model.multitask import MultitaskModel, module_name
from polytask.model.names import PREFIXES, config_to_dict
from polytask.model.weights import build_encoder, encoder_tensors, load_encoder, read_config, save_encoder
from polytask.tasks import Task, value_scale

# What the ForSequenceClassification of an architecture computes from the first token, before its last layer.
SEQUENCE_CLASSES = {
    "bert": "BertForSequenceClassification",
    "roberta": "RobertaForSequenceClassification",
    "xlm-roberta": "XLMRobertaForSequenceClassification",
    "electra": "ElectraForSequenceClassification",
}
PROBLEM_TYPES = {
    "classification": "single_label_classification",
    "multilabel": "multi_label_classification",
    "regression": "regression",
}


def why_not(task: Task, encoder: AnyEncoder, adapter: AdapterRecipe | None) -> str | None:
    """Why `transformers` has no sequence classifier that computes a task; None if it has one."""
    architecture = encoder.config.architecture
    if adapter is not None and adapter.kind != "none":
        return f"its layers of the kind {adapter.kind!r} are no part of a ForSequenceClassification"
    if task.separate:
        return "it reads the sentences of a pair separately, where a ForSequenceClassification joins them"
    if architecture not in SEQUENCE_CLASSES:
        return f"the ForSequenceClassification of {architecture} puts another layer before the labels"
    pooling, head = ("cls", "hidden") if architecture == "electra" else ("pooler", "linear")
    if (task.pooling, task.head.kind) != (pooling, head):
        return (
            f"it has pooling {task.pooling!r} and head {task.head.kind!r}; {SEQUENCE_CLASSES[architecture]} "
            f"computes only pooling {pooling!r} with head {head!r}"
        )
    if head == "hidden" and task.head.size not in (None, encoder.config.width):
        return f"its head's size is {task.head.size}, which should be the encoder's width"
    return None


def save_shared_encoder(model: MultitaskModel, tokenizer: Tokenizer, max_length: int, folder: Path) -> None:
    """The shared encoder with its tokenizer, as `AutoModel` and `AutoTokenizer` load them."""
    save_encoder(model.encoder, folder)
    _save_tokenizer(model.encoder, tokenizer, max_length, folder)


def save_classifier(
    model: MultitaskModel, task: Task, tokenizer: Tokenizer, max_length: int, folder: Path
) -> None:
    """One task as `AutoModelForSequenceClassification` loads it.

    The temperature and a regression's scale go into the last layer, so that the softmax or logistic of its
    outputs are the task's probabilities, and a regression's output is its value (but for the range's ends).
    """
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    encoder, architecture = model.encoder, model.encoder.config.architecture
    prefix = PREFIXES[architecture]
    tensors = {f"{prefix}{name}": tensor for name, tensor in encoder_tensors(encoder).items()}
    *_, last = layers = _linears(model.heads[module_name(task.name)])
    ends = _settled(task, last)
    if architecture == "bert":
        names: Sequence[tuple[str, Tensor]] = [("classifier.weight", ends[0]), ("classifier.bias", ends[1])]
    else:
        dense = layers[0] if architecture == "electra" else encoder.pooler
        assert dense is not None
        tensors = {name: tensor for name, tensor in tensors.items() if ".pooler." not in name}
        names = [
            ("classifier.dense.weight", dense.weight),
            ("classifier.dense.bias", dense.bias),
            ("classifier.out_proj.weight", ends[0]),
            ("classifier.out_proj.bias", ends[1]),
        ]
    whole = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in [*tensors.items(), *names]}
    labels = task.labels or ("value",)
    config = {
        **config_to_dict(encoder.config),
        "architectures": [SEQUENCE_CLASSES[architecture]],
        "problem_type": PROBLEM_TYPES[task.kind],
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }
    config.pop("add_pooling_layer", None)
    write_whole(folder / "model.safetensors", lambda path: save_file(whole, path, {"format": "pt"}))
    write_bytes(folder / "config.json", (json.dumps(config, indent=2) + "\n").encode())
    _save_tokenizer(encoder, tokenizer, max_length, folder)


def read_encoder(folder: Path) -> MultitaskModel:
    """A written encoder as a model without tasks, from its files alone."""
    return MultitaskModel(load_encoder(folder)[0], {}, torch.Generator())


def read_classifier(folder: Path, task: Task) -> MultitaskModel:
    """A written classifier as a model of that one task, from its files alone, to check what was written."""
    config, tensors = read_config(folder), read_tensors(folder)
    encoder, _ = build_encoder(config, tensors, folder)
    model = MultitaskModel(encoder, {task.name: replace(task, temperature=1.0)}, torch.Generator())
    *_, last = layers = _linears(model.heads[module_name(task.name)])
    with torch.no_grad():
        if config.architecture == "bert":
            weight, bias = tensors["classifier.weight"], tensors["classifier.bias"]
        else:
            dense = layers[0] if config.architecture == "electra" else encoder.pooler
            assert dense is not None
            dense.weight.copy_(tensors["classifier.dense.weight"])
            dense.bias.copy_(tensors["classifier.dense.bias"])
            weight, bias = tensors["classifier.out_proj.weight"], tensors["classifier.out_proj.bias"]
        middle, unit = value_scale(task) if task.kind == "regression" else (0.0, 1.0)
        last.weight.copy_(weight / unit)
        last.bias.copy_((bias - middle) / unit)
    return model


def _linears(head: nn.Module) -> list[nn.Linear]:
    assert isinstance(head, Head)
    return [layer for layer in head.output if isinstance(layer, nn.Linear)]


def _settled(task: Task, last: nn.Linear) -> tuple[Tensor, Tensor]:
    """The last layer's weight and bias with what comes after it worked in."""
    if task.kind != "regression":
        return last.weight / task.temperature, last.bias / task.temperature
    middle, unit = value_scale(task)
    return last.weight * unit, last.bias * unit + middle


def _save_tokenizer(encoder: AnyEncoder, tokenizer: Tokenizer, max_length: int, folder: Path) -> None:
    tokenizer.save(folder)
    segments = encoder.config.num_segments > 1 and tokenizer.second_segment > 0
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "model_input_names": ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"],
        **tokenizer.special_words(),
    }
    write_bytes(folder / "tokenizer_config.json", (json.dumps(config, indent=2) + "\n").encode())
