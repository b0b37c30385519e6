"""A tiny project: a random encoder of a few words, generated data for three tasks, and a recipe for them."""

import random
from pathlib import Path

import torch

from polytask.model.encoder import Encoder, EncoderConfig
from polytask.model.weights import save_encoder
from polytask.recipe import Recipe

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
GOOD, BAD, NOUNS = ["good", "fine", "great"], ["bad", "poor", "awful"], ["film", "song", "book"]
FILLERS = list("abcdefghijklmnopqrstuvwxyz")
WORDS = [*SPECIALS, "the", "is", "very", ".", "##s", "1", *GOOD, *BAD, *NOUNS, *FILLERS]
RECIPE = """
encoder = "encoder"
max_length = 24
precision = "fp32"
threads = 1

[tasks.mood]
train = "mood-train.tsv"
dev = "mood-dev.tsv"

[tasks.alike]
kind = "regression"
train = "alike-train.tsv"
dev = "alike-dev.tsv"
text = ["first", "second"]
label = "score"
range = [0, 5]

[tasks.tags]
kind = "multilabel"
train = "tags-train.tsv"
dev = "tags-dev.tsv"
label = ["good", "film"]

[[phases]]
epochs = 2
steps_per_epoch = 6
batch_size = 8
lr = 1e-3
"""


def write_project(folder: Path) -> Path:
    """A folder with `encoder/`, six data files and `tiny.toml`."""
    _write_encoder(folder / "encoder")
    source = random.Random(1)
    for split, rows in (("train", 50), ("dev", 30)):
        mood, alike, tags = (
            [["id", "text", "label"]],
            [["id", "first", "second", "score"]],
            [["text", "good", "film"]],
        )
        for number in range(rows):
            first, second = number % 2, number // 2 % 2
            mood.append([f"m{number}", _sentence(first, source), ["negative", "positive"][first]])
            score = "4.5" if first == second else "0.5"
            alike.append([f"p{number}", _sentence(first, source), _sentence(second, source), score])
            text = _sentence(first, source)
            tags.append([text, str(first), str(int("film" in text))])
        for name, lines in (("mood", mood), ("alike", alike), ("tags", tags)):
            content = "".join("\t".join(cells) + "\n" for cells in lines)
            (folder / f"{name}-{split}.tsv").write_text(content, encoding="utf-8")
    (folder / "tiny.toml").write_text(RECIPE, encoding="utf-8")
    return folder


def load_recipe(folder: Path, *changes: str) -> Recipe:
    """The project's recipe with changes as `--set` takes them."""
    return Recipe.load(folder / "tiny.toml", changes)


def _sentence(good: int, source: random.Random) -> str:
    filler = " ".join(source.choices(FILLERS, k=source.randint(2, 9)))
    return f"the {source.choice(NOUNS)} is {source.choice(GOOD if good else BAD)} {filler}"


def _write_encoder(folder: Path) -> None:
    config = EncoderConfig(
        architecture="bert",
        vocab_size=len(WORDS),
        width=16,
        num_layers=2,
        num_heads=2,
        ffn_width=32,
        max_length=32,
    )
    encoder, generator = Encoder(config), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
            if "norm" in name and name.endswith("weight"):
                parameter.add_(1)
    folder.mkdir()
    save_encoder(encoder, folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
