"""The sizes of an encoder and the few ways in which architectures differ."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from torch.nn import functional as F

Architecture = Literal["bert", "roberta", "xlm-roberta", "distilbert", "electra", "modernbert"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": lambda hidden: F.gelu(hidden, approximate="tanh"),
    "gelu_pytorch_tanh": lambda hidden: F.gelu(hidden, approximate="tanh"),
    "relu": F.relu,
}


@dataclass(frozen=True)
class EncoderConfig:
    """The sizes of an encoder and the few ways in which the family's members differ."""

    architecture: Architecture
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
    global_layers: tuple[int, ...] = ()  # of a ModernBERT: those that attend to all tokens
    window: int = 0  # how many tokens on each side the other layers of a ModernBERT attend to
    global_theta: float = 160_000.0  # the base of the rotary positions' wavelengths, in global layers
    local_theta: float = 10_000.0

    @property
    def up_width(self) -> int:
        """The outputs of `up`: a gated feed-forward network has as many gates as inner values."""
        return (2 if self.architecture == "modernbert" else 1) * self.ffn_width

    @property
    def normed_states(self) -> bool:
        """Whether each layer ends with a norm; otherwise its states grow, and a last norm follows the top."""
        return self.architecture != "modernbert"
