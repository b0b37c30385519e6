"""Heads: from the token states of a task's rows to its outputs."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from polytask.batch import Tokens
from polytask.model.dropout import Dropout
from polytask.model.encoder import Encoder, EncoderConfig
from polytask.tasks import Task

INIT_STD = 0.02
POOLING_HEADS = 8
LAST_LAYER_LEAD = 2.0  # the last state starts with e^2 times the weight of any other


def mean_pool(hidden: Tensor, tokens: Tokens) -> Tensor:
    """The mean over real tokens, [B, D]."""
    mask = tokens.mask().unsqueeze(1).to(hidden.dtype)  # [B, 1, L]
    return (mask @ hidden).squeeze(1) / tokens.lengths.unsqueeze(1)


@final
class AttentionPooling(nn.Module):
    """Learned queries over a learned mix of the layers' states: it draws more from a frozen encoder."""

    def __init__(self, config: EncoderConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.layer_weights = nn.Parameter(torch.zeros(config.num_layers + 1))
        self.scores = _linear(config.width, POOLING_HEADS, generator)
        self.values = _linear(config.width, config.width, generator)
        with torch.no_grad():
            self.layer_weights[-1] = LAST_LAYER_LEAD

    def forward(self, states: Sequence[Tensor], tokens: Tokens, dropout: Dropout | None) -> Tensor:
        weights = self.layer_weights.softmax(0).to(states[-1].dtype)
        hidden = weights[0] * states[0]
        for weight, state in zip(weights[1:], states[1:], strict=True):
            hidden = hidden + weight * state
        values = self.values(hidden).unflatten(2, (POOLING_HEADS, -1))  # [B, L, H, D/H]
        scores = self.scores(dropout(hidden) if dropout is not None else hidden).float()  # [B, L, H]
        scores = scores.masked_fill(~tokens.mask().unsqueeze(2), float("-inf"))
        shares = scores.softmax(dim=1).to(values.dtype)
        return torch.einsum("blh,blhd->bhd", shares, values).flatten(1)


@final
class LinearHead(nn.Module):
    """Pooling, dropout and one linear layer; of separate pairs, on u, v, |u - v| and u * v."""

    def __init__(self, task: Task, config: EncoderConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.task = task
        self.pooling = AttentionPooling(config, generator) if task.pooling == "attention" else None
        self.output = _linear((4 if task.separate else 1) * config.width, task.num_outputs, generator)

    def forward(
        self, encoder: Encoder, states: Sequence[Tensor], tokens: Tokens, dropout: Dropout | None
    ) -> Tensor:
        """Outputs [rows, num_outputs] from the states [B, L, D] of the task's sequences."""
        match self.task.pooling:
            case "cls":
                features = states[-1][:, 0]
            case "pooler":
                features = encoder.pool(states[-1])
            case "mean":
                features = mean_pool(states[-1], tokens)
            case "attention":
                assert self.pooling is not None
                features = self.pooling(states, tokens, dropout)
        if self.task.separate:
            features = pair_features(features)
        return self.output(dropout(features) if dropout is not None else features)


HEADS = {"linear": LinearHead}


def build_head(task: Task, config: EncoderConfig, generator: torch.Generator) -> LinearHead:
    """The head that a task names, for an encoder of these sizes."""
    return HEADS[task.head](task, config, generator)


def pair_features(pooled: Tensor) -> Tensor:
    """u, v, |u - v|, u * v, [B, 4 D], from the vectors [2 B, D] of first and second sentences."""
    first, second = pooled.chunk(2)
    return torch.cat([first, second, (first - second).abs(), first * second], dim=1)


def _linear(num_inputs: int, num_outputs: int, generator: torch.Generator) -> nn.Linear:
    layer = nn.Linear(num_inputs, num_outputs)
    nn.init.normal_(layer.weight, std=INIT_STD, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer
