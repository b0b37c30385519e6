"""Heads: from the token states of a task's rows to its outputs."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polytask.batch import Tokens
from polytask.choices import HeadRecipe
from polytask.errors import RecipeError
from polytask.model.adapters.rows import small_linear
from polytask.model.architectures import AnyEncoder
from polytask.model.config import EncoderConfig
from polytask.model.dropout import Dropout
from polytask.model.readers import AttentionPooling, RecurrentReader, mean_pool
from polytask.tasks import Task, value_scale

LARGE_FACTOR = 2  # the hidden layer of a large head, in widths of what it reads
RECURRENT_SIZE = {"rnn": 128, "lstm": 256}


@final
class Head(nn.Module):
    """Reads one vector a sequence, compares the two of a separate pair, and maps to outputs.

    The outputs of a separate pair come from u, v, |u - v| and u * v, or from the cosine of u and v.
    """

    def __init__(self, task: Task, config: EncoderConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.task = task
        chosen = task.head
        if chosen.kind == "cosine" and task.kind == "classification" and task.num_outputs != 2:
            raise RecipeError(
                f"tasks.{task.name}.head 'cosine' tells two labels apart. Found {task.num_outputs}: "
                f"{', '.join(task.labels)}."
            )
        num_features = config.width
        self.reader: AttentionPooling | RecurrentReader | None = None
        if chosen.kind == "rnn" or chosen.kind == "lstm":
            size = chosen.size or RECURRENT_SIZE[chosen.kind]
            self.reader = RecurrentReader(chosen.kind, config.width, size, bool(chosen.cls), generator)
            num_features = size + (config.width if chosen.cls else 0)
        elif task.pooling == "attention":
            self.reader = AttentionPooling(config, generator)
        if chosen.kind != "cosine":
            num_features *= 4 if task.separate else 1
            self.output = output_layers(chosen, num_features, task.num_outputs, generator)

    def forward(
        self, encoder: AnyEncoder, states: Sequence[Tensor], tokens: Tokens, dropout: Dropout | None
    ) -> Tensor:
        """Outputs [rows, num_outputs] (of a cosine head [rows, 1]) from the sequences' states [B, L, D]."""
        features = self._read(encoder, states, tokens, dropout)
        if self.task.head.kind == "cosine":
            return self._cosine(dropout(features) if dropout is not None else features)
        if self.task.separate:
            features = pair_features(features)
        for layer in self.output:
            if dropout is not None and isinstance(layer, nn.Linear):
                features = dropout(features)
            features = layer(features)
        return features

    def _read(
        self, encoder: AnyEncoder, states: Sequence[Tensor], tokens: Tokens, dropout: Dropout | None
    ) -> Tensor:
        if self.reader is not None:
            return self.reader(states, tokens, dropout)
        match self.task.pooling:
            case "cls":
                return states[-1][:, 0]
            case "pooler":
                return encoder.pool(states[-1])
            case _:
                return mean_pool(states[-1], tokens)

    def _cosine(self, features: Tensor) -> Tensor:
        first, second = halves(features.float())
        cosine = F.cosine_similarity(first, second, dim=1).unsqueeze(1)
        if self.task.kind == "classification":
            return cosine * (self.task.head.scale or 1.0)
        assert self.task.range is not None
        middle, unit = value_scale(self.task)
        return (cosine * (self.task.head.scale or self.task.range[1]) - middle) / unit


def output_layers(
    chosen: HeadRecipe, num_features: int, num_outputs: int, generator: torch.Generator
) -> nn.Sequential:
    """One linear layer, or two with a GELU between; dropout stands before each."""
    if chosen.kind in ("hidden", "large"):
        size = chosen.size or num_features * (LARGE_FACTOR if chosen.kind == "large" else 1)
        first = small_linear(num_features, size, generator)
        return nn.Sequential(first, nn.GELU(), small_linear(size, num_outputs, generator))
    return nn.Sequential(small_linear(num_features, num_outputs, generator))


def halves(pooled: Tensor) -> tuple[Tensor, Tensor]:
    """The vectors of the first and of the second sentences; chunking would fix an exported graph's batch."""
    half = pooled.shape[0] // 2
    return pooled.narrow(0, 0, half), pooled.narrow(0, half, half)


def pair_features(pooled: Tensor) -> Tensor:
    """u, v, |u - v|, u * v, [B, 4 D], from the vectors [2 B, D] of first and second sentences."""
    first, second = halves(pooled)
    return torch.cat([first, second, (first - second).abs(), first * second], dim=1)
