"""The tiny project with a random ModernBERT and a byte-pair tokenizer of its own."""

from dataclasses import replace
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from polytask.model.architectures import new_encoder
from polytask.model.config import EncoderConfig
from polytask.model.weights import save_encoder

SPECIALS = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
CONFIG = EncoderConfig(
    architecture="modernbert",
    vocab_size=0,  # of the tokenizer, once there is one
    width=16,
    num_layers=3,
    num_heads=2,
    ffn_width=24,
    max_length=40,
    num_segments=0,
    pad_id=SPECIALS.index("[PAD]"),
    norm_eps=1e-5,
    pooler=False,
    global_layers=(0,),
    window=3,  # shorter than the project's texts
)


def write_modernbert(folder: Path, project: Path) -> None:
    """An encoder folder whose tokenizer was learnt from a tiny project's texts."""
    folder.mkdir(exist_ok=True)
    tokenizer = _byte_pairs(sorted(map(str, project.glob("*-train.tsv"))))
    tokenizer.save(str(folder / "tokenizer.json"))
    encoder = new_encoder(replace(CONFIG, vocab_size=tokenizer.get_vocab_size()))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
            if "norm" in name:
                parameter.add_(1)
    save_encoder(encoder, folder)


def _byte_pairs(files: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train(
        files,
        trainers.BpeTrainer(
            vocab_size=360, special_tokens=SPECIALS, initial_alphabet=alphabet, show_progress=False
        ),
    )
    specials = [(token, SPECIALS.index(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=specials
    )
    return tokenizer
