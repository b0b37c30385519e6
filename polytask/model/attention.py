"""Scaled dot-product attention, which the encoders and the task-specific layers share."""

import torch
from torch import Tensor
from torch.nn import functional as F

from polytask.model.dropout import Dropout

# In bf16 on a CPU, writing the scores out beats the fused kernel up to about this length (docs/decisions.md).
PLAIN_ATTENTION_LENGTH = 256
SHORT_SOFTMAX = 56  # below this length a softmax in fp32 costs less than one in bf16, casts included


def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, dropout: Dropout | None) -> Tensor:
    """Scaled dot-product attention over [B, H, L, D/H]."""
    plain = query.dtype == torch.bfloat16 and query.device.type == "cpu"
    if dropout is not None and dropout.threshold == 0:
        dropout = None
    if dropout is None and not (plain and query.shape[2] <= PLAIN_ATTENTION_LENGTH):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
    if bias is not None:
        scores = scores + bias
    weights = _softmax(scores)
    return (dropout(weights) if dropout is not None else weights) @ value


def _softmax(scores: Tensor) -> Tensor:
    """Over the last dimension. The CPU's bf16 kernel is slow for short rows that do not fill its vectors."""
    length = scores.shape[-1]
    if scores.dtype == torch.bfloat16 and length < SHORT_SOFTMAX and length % 32:
        return scores.float().softmax(dim=-1).to(scores.dtype)
    return scores.softmax(dim=-1)


def score_dtype(hidden: Tensor) -> torch.dtype:
    """The type that matrix products run in here, and so of what is added to attention scores."""
    kind = hidden.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype


def split_heads(qkv: Tensor, num_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value, each [B, H, L, D/H], from one [B, L, 3 D]."""
    query, key, value = torch.unflatten(qkv, 2, (3, num_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
    return query, key, value


def merge_heads(heads: Tensor) -> Tensor:
    """[B, H, L, D/H] to [B, L, D]."""
    return heads.transpose(1, 2).flatten(2)
