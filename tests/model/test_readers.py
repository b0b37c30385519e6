"""What the readers make of token states, beyond what the heads' equations say."""

import torch

from polytask.batch import Tokens
from polytask.model.readers import mean_pool


def test_a_mean_is_not_rounded_where_matrix_products_run_in_bf16() -> None:
    hidden = torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(1)) + 3
    tokens = Tokens(torch.zeros(3, 6, dtype=torch.long), torch.tensor([6, 2, 1]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = mean_pool(hidden, tokens)
    expected = torch.stack([row[:length].mean(dim=0) for row, length in zip(hidden, (6, 2, 1), strict=True)])
    assert torch.allclose(found, expected, atol=1e-6)
