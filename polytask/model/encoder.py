"""The whole encoder of the BERT family: post-norm transformers with slots for task-specific layers."""

from typing import final

import torch
from torch import Tensor, nn

from polytask.batch import Tokens
from polytask.model.attention import attend, merge_heads, score_dtype, split_heads
from polytask.model.config import ACTIVATIONS, EncoderConfig
from polytask.model.dropout import Dropout
from polytask.model.slots import NO_SLOTS, LayerSlots, Slots, go_on_with, slotted

__all__ = ["Encoder", "EncoderConfig", "EncoderLayer"]


@final
class Attention(nn.Module):
    """Multi-head self-attention with its output projection; query, key and value are one matrix."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.output = nn.Linear(config.width, config.width)

    def forward(
        self, hidden: Tensor, bias: Tensor | None, slots: LayerSlots, dropout: Dropout | None
    ) -> Tensor:
        query, key, value = split_heads(slotted(self.qkv, hidden, "qkv", slots), self.num_heads)
        return slotted(self.output, merge_heads(attend(query, key, value, bias, dropout)), "output", slots)


@final
class EncoderLayer(nn.Module):
    """Attention, add & norm, feed-forward, add & norm, with four slots."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.attention_norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.up = nn.Linear(config.width, config.ffn_width)
        self.down = nn.Linear(config.ffn_width, config.width)
        self.ffn_norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.activation = ACTIVATIONS[config.activation]

    def forward(
        self, hidden: Tensor, bias: Tensor | None, slots: LayerSlots, dropout: Dropout | None
    ) -> Tensor:
        attended = self.attention(hidden, bias, slots, dropout)
        if dropout is not None:
            attended = dropout(attended)
        if slots.after_attention is not None:
            attended = slots.after_attention(attended, bias)
        middle = self.attention_norm(hidden + attended)

        fed = slotted(self.down, self.activation(slotted(self.up, middle, "up", slots)), "down", slots)
        if dropout is not None:
            fed = dropout(fed)
        total = middle + fed
        if slots.beside_ffn is not None:
            total = total + slots.beside_ffn(middle, bias)
        if slots.parallel is not None:
            total = total + slots.parallel(hidden, bias)
        return self.ffn_norm(total)


@final
class Embeddings(nn.Module):
    """Word, position and segment embeddings, summed and normed."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.embedding_width or config.width
        self.first_position = config.first_position
        self.words = nn.Embedding(config.vocab_size, width)
        self.positions = nn.Embedding(config.first_position + config.max_length, width)
        self.segments = nn.Embedding(config.num_segments, width) if config.num_segments else None
        self.norm = nn.LayerNorm(width, eps=config.norm_eps)
        self.project = nn.Linear(width, config.width) if width != config.width else None

    def forward(self, tokens: Tokens, dropout: Dropout | None) -> Tensor:
        first = self.first_position
        # Padding gets a position too; nothing attends to it, so which one does not matter.
        hidden = self.words(tokens.ids) + self.positions.weight[first : first + tokens.ids.shape[1]]
        if self.segments is not None:
            plain = tokens.segments is None
            hidden = hidden + (self.segments.weight[0] if plain else self.segments(tokens.segments))
        hidden = self.norm(hidden)
        if dropout is not None:
            hidden = dropout(hidden)
        return self.project(hidden) if self.project is not None else hidden


@final
class Encoder(nn.Module):
    """A pretrained transformer that turns tokens into one vector a token, [B, L, D]."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_layers))
        self.pooler = nn.Linear(config.width, config.width) if config.pooler else None

    def forward(
        self,
        tokens: Tokens,
        dropout: Dropout | None = None,
        slots: Slots | None = None,
        frozen_layers: int = 0,
    ) -> Tensor:
        """The last of `states`: one vector a token, [B, L, D]."""
        return self.states(tokens, dropout, slots, frozen_layers)[-1]

    def states(
        self,
        tokens: Tokens,
        dropout: Dropout | None = None,
        slots: Slots | None = None,
        frozen_layers: int = 0,
        noise: Tensor | None = None,
    ) -> list[Tensor]:
        """The embeddings and the hidden states after each layer; `dropout=None` is evaluation.

        The embeddings and the first `frozen_layers - 1` layers run without gradients or dropout: 0 trains
        everything, 1 freezes the embeddings, and 1 + num_layers freezes the whole encoder. `noise` [B, L, D]
        is added to what the lowest trained layer reads.
        """
        with torch.set_grad_enabled(torch.is_grad_enabled() and frozen_layers == 0):
            hidden = self.embeddings(tokens, dropout if frozen_layers == 0 else None)
        first_trained = max(0, frozen_layers - 1)
        if noise is not None and first_trained == 0:
            hidden = hidden + noise
        states = [hidden]
        bias = tokens.padding_bias(score_dtype(hidden))
        for number, layer in enumerate(self.layers):
            trained = number + 1 >= frozen_layers
            with torch.set_grad_enabled(torch.is_grad_enabled() and trained):
                if slots is not None and number == slots.first:
                    hidden, bias = go_on_with(slots.rows, hidden, bias)
                layer_slots = slots.layers[number] if slots is not None else NO_SLOTS
                hidden = layer(hidden, bias, layer_slots, dropout if trained else None)
            if noise is not None and number + 1 == first_trained:
                copied = slots is not None and slots.rows is not None and number >= slots.first
                hidden = hidden + (noise[slots.rows] if slots is not None and copied else noise)
            states.append(hidden)
        if slots is not None and slots.on_top is not None:
            if slots.first == len(self.layers):
                hidden, bias = go_on_with(slots.rows, hidden, bias)
            states[-1] = slots.on_top(hidden, bias)
        return states

    def pool(self, hidden: Tensor) -> Tensor:
        """BERT's own summary of a sequence [B, D]: tanh of a linear layer on its first token."""
        assert self.pooler is not None, f"{self.config.architecture} has no pooler"
        return torch.tanh(self.pooler(hidden[:, 0]))
