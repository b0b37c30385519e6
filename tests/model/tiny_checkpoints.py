"""Tiny encoders and the folders that hold them, in each form that a checkpoint may have."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from polytask.batch import Tokens
from polytask.model.architectures import AnyEncoder, new_encoder
from polytask.model.config import EncoderConfig

BERT = EncoderConfig(
    architecture="bert", vocab_size=40, width=8, num_layers=2, num_heads=2, ffn_width=12, max_length=10
)
ROBERTA = replace(BERT, architecture="roberta", num_segments=1, first_position=2, pad_id=1)
MODERNBERT = replace(
    BERT, architecture="modernbert", num_segments=0, norm_eps=1e-5, pooler=False, global_layers=(0,), window=2
)
CONFIGS = {
    "bert": BERT,
    "bert without pooler": replace(BERT, pooler=False, activation="relu", norm_eps=1e-6),
    "roberta": ROBERTA,
    "xlm-roberta": replace(ROBERTA, architecture="xlm-roberta"),
    "distilbert": replace(BERT, architecture="distilbert", num_segments=0, pooler=False),
    "electra": replace(BERT, architecture="electra", pooler=False),
    "electra with narrow embeddings": replace(BERT, architecture="electra", pooler=False, embedding_width=4),
    "modernbert": MODERNBERT,
    "modernbert with layers of its own": replace(
        MODERNBERT, global_layers=(1,), window=1, global_theta=500.0, local_theta=20.0
    ),
}
TOKENS = Tokens(torch.tensor([[5, 6, 7, 8], [9, 10, 0, 0]]), torch.tensor([4, 2]))
POOLER = ("pooler.dense.weight", "pooler.dense.bias")
QUERY = "encoder.layer.1.attention.self.query.weight"


def make_encoder(config: EncoderConfig = BERT) -> AnyEncoder:
    encoder, generator = new_encoder(config), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return encoder


def assert_equal(found: AnyEncoder, wanted: AnyEncoder) -> None:
    assert found.config == wanted.config
    state = found.state_dict()
    assert state.keys() == wanted.state_dict().keys()
    for name, tensor in wanted.state_dict().items():
        assert state[name].dtype == torch.float32
        assert torch.equal(state[name], tensor), name
    assert torch.equal(found(TOKENS), wanted(TOKENS))


def rewrite(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    path = folder / "model.safetensors"
    save_file(change({name: tensor.clone() for name, tensor in load_file(path).items()}), path)


def with_tensor(folder: Path, name: str, tensor: Tensor) -> None:
    rewrite(folder, lambda tensors: {**tensors, name: tensor})


def as_torch_file(folder: Path, name: str = "pytorch_model.bin", **options: Any) -> Path:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / name, **options)
    return folder / name


def as_shards(folder: Path) -> Path:
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    places: dict[str, str] = {}
    for number in range(3):
        shard = f"model-0000{number + 1}-of-00003.safetensors"
        part = {name: tensors[name].clone() for name in sorted(tensors)[number::3]}
        places |= dict.fromkeys(part, shard)
        save_file(part, folder / shard)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return index
