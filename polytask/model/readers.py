"""Readers: from token states to one vector a sequence, beyond taking the first token or the mean."""

from collections.abc import Sequence
from typing import Literal, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polytask.batch import Tokens
from polytask.model.adapters.rows import small_linear
from polytask.model.config import EncoderConfig
from polytask.model.dropout import Dropout

POOLING_HEADS = 8
LAST_LAYER_LEAD = 2.0  # the last state starts with e^2 times the weight of any other


def mean_pool(hidden: Tensor, tokens: Tokens) -> Tensor:
    """The mean over real tokens, [B, D]."""
    # Not a matrix product, which autocast would round to bf16.
    mask = tokens.mask().unsqueeze(2).to(hidden.dtype)  # [B, L, 1]
    return (hidden * mask).sum(dim=1) / tokens.lengths.unsqueeze(1)


@final
class AttentionPooling(nn.Module):
    """Learned queries over a learned mix of the layers' states: it draws more from a frozen encoder."""

    def __init__(self, config: EncoderConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.normed_states = config.normed_states
        self.num_heads = POOLING_HEADS if config.width % POOLING_HEADS == 0 else 1
        self.layer_weights = nn.Parameter(torch.zeros(config.num_layers + 1))
        self.scores = small_linear(config.width, self.num_heads, generator)
        self.values = small_linear(config.width, config.width, generator)
        with torch.no_grad():
            self.layer_weights[-1] = LAST_LAYER_LEAD

    def forward(self, states: Sequence[Tensor], tokens: Tokens, dropout: Dropout | None) -> Tensor:
        weights = self.layer_weights.softmax(0).to(states[-1].dtype)
        if not self.normed_states:  # the largest would drown the others, and the last most of all
            states = [*(F.layer_norm(state, state.shape[-1:]) for state in states[:-1]), states[-1]]
        hidden = weights[0] * states[0]
        for weight, state in zip(weights[1:], states[1:], strict=True):
            hidden = hidden + weight * state
        values = self.values(hidden).unflatten(2, (self.num_heads, -1))  # [B, L, H, D/H]
        scores = self.scores(dropout(hidden) if dropout is not None else hidden).float()  # [B, L, H]
        scores = scores.masked_fill(~tokens.mask().unsqueeze(2), float("-inf"))
        shares = scores.softmax(dim=1).to(values.dtype)
        return torch.einsum("blh,blhd->bhd", shares, values).flatten(1)


@final
class RecurrentReader(nn.Module):
    """The last state of an RNN or LSTM over the token states, alone or joined with the first token's."""

    def __init__(
        self, kind: Literal["rnn", "lstm"], width: int, size: int, cls: bool, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.cls = cls
        self.cells: nn.RNN | nn.LSTM = (nn.RNN if kind == "rnn" else nn.LSTM)(width, size, batch_first=True)
        for parameter in self.cells.parameters():
            nn.init.uniform_(parameter, -(size**-0.5), size**-0.5, generator=generator)

    def forward(self, states: Sequence[Tensor], tokens: Tokens, dropout: Dropout | None) -> Tensor:
        hidden = dropout(states[-1]) if dropout is not None else states[-1]
        with torch.autocast(hidden.device.type, enabled=False):  # steps are too small to gain from bf16
            after_each, _ = self.cells(hidden.float())  # [B, L, size]
        # Padding comes after the last real token, so it never reaches the state that is read.
        last = (tokens.lengths - 1)[:, None, None].expand(-1, 1, after_each.shape[2])
        vector: Tensor = after_each.gather(1, last).squeeze(1)
        return torch.cat([vector, states[-1][:, 0].float()], dim=1) if self.cls else vector
