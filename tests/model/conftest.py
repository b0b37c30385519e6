"""What several of this folder's tests start from."""

from pathlib import Path

import pytest
from tiny_checkpoints import make_encoder

from polytask.model.weights import save_encoder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A BERT folder, which the tests then change."""
    save_encoder(make_encoder(), tmp_path)
    return tmp_path
