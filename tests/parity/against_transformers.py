"""How an encoder of ours is compared with a tiny random one of transformers."""

from typing import Any

import torch
from torch import Tensor

from polytask.batch import Tokens
from polytask.model.architectures import AnyEncoder

TOLERANCE = 1e-5
SIZES = {
    "vocab_size": 211,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 72,
}
MODERNBERT = {
    **{key: value for key, value in SIZES.items() if key != "num_hidden_layers"},
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    **{f"{name}_token_id": 1 for name in ("bos", "eos", "cls", "sep")},
}


def shaken(model: Any) -> Any:
    """With every parameter moved, so that a bias or norm in the wrong place shows."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    return model.eval()


def batch_of(lengths: tuple[int, ...], vocab_size: int, num_segments: int = 0, pad_id: int = 0) -> Tokens:
    """Random tokens; with segments, the second half of each row is the second segment."""
    generator = torch.Generator().manual_seed(len(lengths))
    width, sizes = max(lengths), torch.tensor(lengths)
    ids = torch.randint(5, vocab_size, (len(lengths), width), generator=generator)
    places = torch.arange(width)
    ids[places >= sizes[:, None]] = pad_id
    segments = (places >= sizes[:, None] // 2).long() if num_segments > 1 else None
    return Tokens(ids, sizes, segments)


def real(tokens: Tokens) -> Tensor:
    return torch.arange(tokens.ids.shape[1]) < tokens.lengths[:, None]


def theirs(model: Any, tokens: Tokens) -> Any:
    given = {"input_ids": tokens.ids, "attention_mask": real(tokens).long()}
    if tokens.segments is not None:
        given["token_type_ids"] = tokens.segments
    return model(**given)


@torch.no_grad()
def assert_same(encoder: AnyEncoder, model: Any, lengths: tuple[int, ...]) -> None:
    config = encoder.config
    tokens = batch_of(lengths, config.vocab_size, config.num_segments, config.pad_id)
    wanted, found = theirs(model, tokens), encoder(tokens)
    assert (found - wanted.last_hidden_state)[real(tokens)].abs().max() <= TOLERANCE
    assert (encoder.pooler is None) == (getattr(wanted, "pooler_output", None) is None)
    if encoder.pooler is not None:
        assert (encoder.pool(found) - wanted.pooler_output).abs().max() <= TOLERANCE
