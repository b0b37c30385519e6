"""The whole encoder: post-norm transformers of the BERT family, with slots for task-specific layers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polytask.batch import Tokens
from polytask.model.dropout import Dropout

# In bf16 on a CPU, writing the scores out beats the fused kernel up to about this length (docs/decisions.md).
PLAIN_ATTENTION_LENGTH = 256
SHORT_SOFTMAX = 56  # below this length a softmax in fp32 costs less than one in bf16, casts included

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": lambda hidden: F.gelu(hidden, approximate="tanh"),
    "gelu_pytorch_tanh": lambda hidden: F.gelu(hidden, approximate="tanh"),
    "relu": F.relu,
}


@dataclass(frozen=True)
class EncoderConfig:
    """The sizes of an encoder and the few ways in which the family's members differ."""

    architecture: Literal["bert", "roberta", "xlm-roberta", "distilbert", "electra"]
    vocab_size: int
    width: int
    num_layers: int
    num_heads: int
    ffn_width: int
    max_length: int  # in tokens, specials included
    num_segments: int = 2  # 0: no segment embeddings (DistilBERT)
    embedding_width: int = 0  # 0: as wide as the layers; otherwise projected (small ELECTRA)
    first_position: int = 0  # RoBERTa's positions start after its padding index
    pad_id: int = 0
    activation: str = "gelu"
    norm_eps: float = 1e-12
    pooler: bool = True


Slot = Callable[[Tensor, Tensor | None], Tensor]  # hidden [B, L, D] and padding bias -> [B, L, D]


@dataclass(frozen=True)
class LayerSlots:
    """Where task-specific layers go in one layer; an empty slot costs nothing."""

    parallel: Slot | None = None  # of the layer's input; added before the layer's last norm
    after_attention: Slot | None = None  # replaces the attention's output before it is added and normed
    beside_ffn: Slot | None = None  # of the feed-forward's input; added to its output
    linears: Mapping[str, Callable[[Tensor], Tensor]] = field(
        default_factory=dict
    )  # added to a linear's output


@dataclass(frozen=True)
class Slots:
    """The task-specific layers of one batch, bound to its rows."""

    layers: Sequence[LayerSlots]
    on_top: Slot | None = None
    first: int = 0  # the lowest layer with a slot in use; the number of layers where only `on_top` is
    rows: Tensor | None = None  # of the batch's sequences, those that go on from `first`; None: all, once


NO_SLOTS = LayerSlots()


def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, dropout: Dropout | None) -> Tensor:
    """Scaled dot-product attention over [B, H, L, D/H]."""
    plain = query.dtype == torch.bfloat16 and query.device.type == "cpu"
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


def split_heads(qkv: Tensor, num_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value, each [B, H, L, D/H], from one [B, L, 3 D]."""
    query, key, value = torch.unflatten(qkv, 2, (3, num_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
    return query, key, value


def merge_heads(heads: Tensor) -> Tensor:
    """[B, H, L, D/H] to [B, L, D]."""
    return heads.transpose(1, 2).flatten(2)


def _go_on_with(rows: Tensor | None, hidden: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """From here on each task has its own copy of a text that several tasks are asked of."""
    if rows is None:
        return hidden, bias
    return hidden[rows], bias[rows] if bias is not None else None


def _linear(layer: nn.Linear, hidden: Tensor, name: str, slots: LayerSlots) -> Tensor:
    extra = slots.linears.get(name)
    return layer(hidden) if extra is None else layer(hidden) + extra(hidden)


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
        query, key, value = split_heads(_linear(self.qkv, hidden, "qkv", slots), self.num_heads)
        return _linear(self.output, merge_heads(attend(query, key, value, bias, dropout)), "output", slots)


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

        fed = _linear(self.down, self.activation(_linear(self.up, middle, "up", slots)), "down", slots)
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
    ) -> list[Tensor]:
        """The embeddings and the hidden states after each layer; `dropout=None` is evaluation.

        The embeddings and the first `frozen_layers - 1` layers run without gradients or dropout: 0 trains
        everything, 1 freezes the embeddings, and 1 + num_layers freezes the whole encoder.
        """
        with torch.set_grad_enabled(torch.is_grad_enabled() and frozen_layers == 0):
            hidden = self.embeddings(tokens, dropout if frozen_layers == 0 else None)
        states = [hidden]
        bias = tokens.padding_bias(self._score_dtype(hidden))
        for number, layer in enumerate(self.layers):
            trained = number + 1 >= frozen_layers
            with torch.set_grad_enabled(torch.is_grad_enabled() and trained):
                if slots is not None and number == slots.first:
                    hidden, bias = _go_on_with(slots.rows, hidden, bias)
                layer_slots = slots.layers[number] if slots is not None else NO_SLOTS
                hidden = layer(hidden, bias, layer_slots, dropout if trained else None)
            states.append(hidden)
        if slots is not None and slots.on_top is not None:
            if slots.first == len(self.layers):
                hidden, bias = _go_on_with(slots.rows, hidden, bias)
            states[-1] = slots.on_top(hidden, bias)
        return states

    def pool(self, hidden: Tensor) -> Tensor:
        """BERT's own summary of a sequence [B, D]: tanh of a linear layer on its first token."""
        assert self.pooler is not None, f"{self.config.architecture} has no pooler"
        return torch.tanh(self.pooler(hidden[:, 0]))

    @staticmethod
    def _score_dtype(hidden: Tensor) -> torch.dtype:
        kind = hidden.device.type
        return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
