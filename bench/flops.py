"""The arithmetic that training an encoder cannot do without."""

from collections.abc import Sequence
from dataclasses import dataclass

from polytask.model.encoder import EncoderConfig


@dataclass(frozen=True)
class TokenFlops:
    """Floating-point operations to train on one real token, a multiply and an add counted as two.

    Linears: 2 a weight in the forward pass, 2 for the gradient of the input, 2 for that of the weight.
    Attention, a layer: the scores q k^T and the mix p v take 2 * length * width each in the forward pass and
    twice that in the backward pass. Embeddings are looked up; norms, activations, dropout, the head and the
    optimiser are no matrix products or too small to count.
    """

    linear_weights: int
    layers: int
    width: int
    mean_length: float  # of the row that a token stands in

    @property
    def linears(self) -> float:
        return 6 * self.linear_weights

    @property
    def attention(self) -> float:
        return 12 * self.layers * self.width * self.mean_length

    @property
    def total(self) -> float:
        return self.linears + self.attention

    def __str__(self) -> str:
        return (
            f"{self.total / 1e6:.1f} MFLOP a token: {self.linears / 1e6:.1f} in linears "
            f"(6 x {self.linear_weights:,} weights), {self.attention / 1e6:.1f} in attention "
            f"(12 x {self.layers} layers x {self.width} wide x {self.mean_length:.1f} tokens)"
        )


def linear_shapes(config: EncoderConfig) -> list[tuple[int, int]]:
    """Inputs and outputs of one layer's linears: query, key and value in one, output, up, down."""
    width, wide = config.width, config.ffn_width
    return [(width, 3 * width), (width, width), (width, wide), (wide, width)]


def training_flops(config: EncoderConfig, lengths: Sequence[int]) -> TokenFlops:
    """The operations of one token, averaged over the tokens of rows with these lengths."""
    weights = config.num_layers * sum(inputs * outputs for inputs, outputs in linear_shapes(config))
    mean_length = sum(length**2 for length in lengths) / sum(lengths)
    return TokenFlops(weights, config.num_layers, config.width, mean_length)
