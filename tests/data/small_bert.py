"""An encoder folder with a vocabulary of a dozen words."""

from pathlib import Path

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "the", "good", "bad", "film", "##s", "1", "."]


def write_bert(folder: Path) -> Path:
    """A new folder `encoder` in `folder` with the vocabulary alone, as old BERTs have it."""
    encoder = folder / "encoder"
    encoder.mkdir()
    (encoder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return encoder
