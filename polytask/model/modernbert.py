"""The whole of ModernBERT: pre-norm layers with rotary positions and mostly local attention, with slots."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from polytask.batch import Tokens
from polytask.model.attention import attend, merge_heads, score_dtype, split_heads
from polytask.model.config import ACTIVATIONS, EncoderConfig
from polytask.model.dropout import Dropout
from polytask.model.slots import NO_SLOTS, LayerSlots, Slots, go_on_with, slotted

__all__ = ["ModernBert", "ModernBertLayer"]


@dataclass(frozen=True)
class Sight:
    """What the attention of a global or of a local layer knows of places."""

    turns: tuple[Tensor, Tensor]  # cosines and sines of each position's angles, fp32 [L, D/H/2]
    bias: Tensor | None  # what is added to its scores, [B or 1, 1, L or 1, L]


@final
class Attention(nn.Module):
    """Multi-head self-attention over positions that turn queries and keys."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.num_heads = config.num_heads
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.output = nn.Linear(config.width, config.width, bias=False)

    def forward(self, hidden: Tensor, sight: Sight, slots: LayerSlots, dropout: Dropout | None) -> Tensor:
        query, key, value = split_heads(slotted(self.qkv, hidden, "qkv", slots), self.num_heads)
        query, key = turn(query, sight.turns), turn(key, sight.turns)
        mixed = merge_heads(attend(query, key, value, sight.bias, dropout))
        return slotted(self.output, mixed, "output", slots)


@final
class ModernBertLayer(nn.Module):
    """Norm, attention, add, norm, gated feed-forward, add, with four slots."""

    def __init__(self, config: EncoderConfig, number: int) -> None:
        super().__init__()
        # The embeddings end with a norm, so that the first layer has none.
        self.attention_norm = plain_norm(config) if number else nn.Identity()
        self.attention = Attention(config)
        self.ffn_norm = plain_norm(config)
        self.up = nn.Linear(config.width, config.up_width, bias=False)
        self.down = nn.Linear(config.ffn_width, config.width, bias=False)
        self.activation = ACTIVATIONS[config.activation]

    def forward(
        self, hidden: Tensor, bias: Tensor | None, sight: Sight, slots: LayerSlots, dropout: Dropout | None
    ) -> Tensor:
        """`bias` is that of padding alone: task-specific layers attend to all tokens, in local layers too."""
        read = self.attention_norm(hidden)
        attended = self.attention(read, sight, slots, dropout)
        if dropout is not None:
            attended = dropout(attended)
        if slots.after_attention is not None:
            attended = slots.after_attention(attended, bias)
        middle = hidden + attended

        normed = self.ffn_norm(middle)
        inner, gate = slotted(self.up, normed, "up", slots).chunk(2, dim=-1)
        fed = slotted(self.down, self.activation(inner) * gate, "down", slots)
        if dropout is not None:
            fed = dropout(fed)
        total = middle + fed
        if slots.beside_ffn is not None:
            total = total + slots.beside_ffn(normed, bias)
        if slots.parallel is not None:
            total = total + slots.parallel(read, bias)
        return total


@final
class Embeddings(nn.Module):
    """Word embeddings, normed; positions come in at every attention."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.vocab_size, config.width)
        self.norm = plain_norm(config)

    def forward(self, tokens: Tokens, dropout: Dropout | None) -> Tensor:
        hidden: Tensor = self.norm(self.words(tokens.ids))
        return dropout(hidden) if dropout is not None else hidden


@final
class ModernBert(nn.Module):
    """A pretrained transformer with the interface of `Encoder`: tokens to one vector a token, [B, L, D]."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(ModernBertLayer(config, number) for number in range(config.num_layers))
        self.final_norm = plain_norm(config)
        self.pooler = None

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
        """The embeddings and the states after each layer, the last ones normed (see `Encoder.states`)."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and frozen_layers == 0):
            hidden = self.embeddings(tokens, dropout if frozen_layers == 0 else None)
        first_trained = max(0, frozen_layers - 1)
        if noise is not None and first_trained == 0:
            hidden = hidden + noise
        states = [hidden]
        bias = tokens.padding_bias(score_dtype(hidden))
        sights = self._sights(hidden, bias)
        for number, layer in enumerate(self.layers):
            trained = number + 1 >= frozen_layers
            with torch.set_grad_enabled(torch.is_grad_enabled() and trained):
                if slots is not None and number == slots.first and slots.rows is not None:
                    hidden, bias = go_on_with(slots.rows, hidden, bias)
                    sights = self._sights(hidden, bias)
                layer_slots = slots.layers[number] if slots is not None else NO_SLOTS
                sight = sights[0 if number in self.config.global_layers else 1]
                hidden = layer(hidden, bias, sight, layer_slots, dropout if trained else None)
            if number + 1 == len(self.layers):
                hidden = self.final_norm(hidden)  # may be trained where the layers below are frozen
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
        """Never called: a recipe that asks for a pooler is refused before."""
        raise AssertionError("modernbert has no pooler")

    def _sights(self, hidden: Tensor, bias: Tensor | None) -> tuple[Sight, Sight]:
        """The sight of global layers and that of local ones."""
        config, length = self.config, hidden.shape[1]
        head_width = config.width // config.num_heads
        near = near_bias(bias, length, config.window, hidden)
        return (
            Sight(turns_of(length, head_width, config.global_theta, hidden.device), bias),
            Sight(turns_of(length, head_width, config.local_theta, hidden.device), near),
        )


def plain_norm(config: EncoderConfig) -> nn.LayerNorm:
    """A layer norm without bias."""
    return nn.LayerNorm(config.width, eps=config.norm_eps, bias=False)


def turns_of(length: int, head_width: int, theta: float, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosines and sines [L, D/H/2] of the angles p * theta^(-2 i / (D/H)) of position p and pair i."""
    exponents = torch.arange(0, head_width, 2, dtype=torch.float32, device=device) / head_width
    positions = torch.arange(length, dtype=torch.float32, device=device)
    angles = positions[:, None] * (1.0 / theta**exponents)
    return angles.cos(), angles.sin()


def turn(heads: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    """Queries or keys [B, H, L, D/H], each pair (i, i + D/H/2) turned by its position's angle, in fp32."""
    cosine, sine = turns
    first, second = heads.chunk(2, dim=-1)
    turned = torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
    return turned.to(heads.dtype)


def near_bias(bias: Tensor | None, length: int, window: int, hidden: Tensor) -> Tensor | None:
    """The bias of padding, and where the sequences are longer than the window also of what lies beyond it."""
    if not torch.compiler.is_exporting() and length <= window + 1:
        return bias
    dtype = score_dtype(hidden)
    places = torch.arange(length, device=hidden.device)
    far = (places[:, None] - places).abs() > window
    band = torch.zeros(1, 1, length, length, dtype=dtype, device=hidden.device)
    band.masked_fill_(far, torch.finfo(dtype).min)
    # The smaller of the two: their sum would overflow, and a padded row of -inf alone has no softmax.
    return band if bias is None else torch.minimum(bias, band)
