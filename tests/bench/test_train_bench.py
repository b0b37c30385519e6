"""The training benchmark measures the same thing for every contender, and says what it could not measure."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from polytask.batch import Tokens
from polytask.data.tokenizer import Tokenizer
from polytask.model.dropout import Dropout
from polytask.model.encoder import Encoder, EncoderConfig
from polytask.model.weights import save_encoder

ROOT = Path(__file__).parents[2]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "the", "good", "bad", "film", "?"]
CONFIG = EncoderConfig(
    architecture="bert", vocab_size=16, width=16, num_layers=2, num_heads=2, ffn_width=32, max_length=128
)
LONG = "the film " * 100


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`bench` is run from the root of a checkout and not installed."""
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.setenv("POLYTASK_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    folder = tmp_path / "encoder"
    save_encoder(Encoder(CONFIG), folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


@pytest.fixture
def quora(tmp_path: Path) -> Path:
    lines = ["\tid\tsentence1\tsentence2\tis_duplicate", "0\tbroken\t\tthe film\t0.0"]
    for number in range(70):
        first = LONG if number == 5 else "a good film ?" * (1 + number % 3)
        lines.append(f"{number}\tid{number}\t{first}\tthe bad film\t{number % 2}.0")
    path = tmp_path / "quora-train.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_every_contender_goes_through_the_same_real_tokens(
    encoder: Path, quora: Path, tmp_path: Path
) -> None:
    from bench.contenders import polytask
    from bench.peers import hugging_face
    from bench.quora import draw_samples

    _, sample = draw_samples(quora, [1, 1], Tokenizer.load(encoder), tmp_path)
    contenders = {
        "polytask": polytask(encoder),
        "bf16": hugging_face(encoder, bf16=True),
        "fp32": hugging_face(encoder, bf16=False),  # after bf16, which must not leak into it
    }
    for name, contender in contenders.items():
        folder = tmp_path / name
        folder.mkdir()
        timed = contender(sample, 1, folder)
        assert timed.tokens == sample.tokens, name
        assert 0 < timed.seconds < 60


def test_samples_are_disjoint_and_hold_whole_rows_cut_at_the_longest_length(
    encoder: Path, quora: Path, tmp_path: Path
) -> None:
    from bench.quora import MAX_LENGTH, draw_samples

    samples = draw_samples(quora, [1, 1], Tokenizer.load(encoder), tmp_path)
    ids = [row.id for sample in samples for row in sample.rows]
    assert len(set(ids)) == 64
    assert "broken" not in ids
    for sample in samples:
        for row, length in zip(sample.rows, sample.lengths, strict=True):
            words = sum(len(text.replace("?", " ? ").split()) for text in row.texts)
            assert length == min(words + 3, MAX_LENGTH)


def test_the_training_operations_of_a_token_are_those_that_torch_counts() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    from bench.flops import training_flops

    lengths = [7, 7, 7]
    tokens = Tokens(torch.ones(3, 7, dtype=torch.int64), torch.tensor(lengths))
    plain_attention = Dropout(0.1, torch.Generator())  # one whose products torch counts
    with FlopCounterMode(display=False) as counter:
        Encoder(CONFIG)(tokens, plain_attention).sum().backward()
    assert counter.get_total_flops() == training_flops(CONFIG, lengths).total * sum(lengths)


def test_gemm_rates_are_the_best_of_all_rounds() -> None:
    from bench.machine import GemmRates, best_rates, measure_gemm

    measured = measure_gemm([(16, 32)], tokens=8, square=32)
    assert all(rate.square > 0 and rate.linears > 0 for rate in measured.values())
    slow = {name: GemmRates(1.0, 9.0) for name in measured}
    fast = {name: GemmRates(2.0, 3.0) for name in measured}
    assert best_rates([slow, fast])["bf16"] == GemmRates(2.0, 9.0)


def test_a_ratio_is_the_median_of_the_ratios_within_rounds() -> None:
    from bench.contenders import Timed
    from bench.table import summarise

    own = [Timed(100, 1.0), Timed(100, 10.0), Timed(100, 2.0)]
    peer = [Timed(100, 2.0), Timed(100, 20.0), Timed(100, 8.0)]
    found = summarise({"own": own, "peer": peer}, ["peer"], updates=4, bound=200.0)
    assert found["own"]["tokens_per_second"] == 50.0
    assert found["own"]["ratio_to"] == {"peer": 2.0}
    assert found["peer"]["ratio_to"] == {"peer": 1.0}
    assert found["own"]["milliseconds_per_update"] == 500.0
    assert found["own"]["share_of_bound"] == 0.25


def test_the_document_is_printed_and_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from bench import train
    from bench.contenders import Timed
    from bench.machine import describe_machine
    from bench.table import summarise

    document: dict[str, Any] = {
        "machine": describe_machine(),
        "setting": {"updates": 1, "batch_size": 32, "tokens": 10, "rounds": 1, "precision": "bf16"},
        "flops_per_token": {"text": "64.6 MFLOP a token"},
        "gemm": {"bf16": {"square": 2e9, "linears": 3e9}},
        "bound": 1234.0,
        "contenders": summarise({"own": [Timed(10, 2.0)]}, ["own"], 1, 1234.0),
    }
    monkeypatch.setattr(train, "compare", lambda *_: document)
    results = tmp_path / "results" / "train.json"
    assert train.main(["--quick"], results=results) == 0
    assert json.loads(results.read_text()) == document
    shown = capsys.readouterr().out
    assert "64.6 MFLOP a token" in shown
    assert "1,234 tokens/s" in shown


def test_absent_data_is_the_users_to_mend(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from bench import train

    monkeypatch.setenv("POLYTASK_DATA", str(tmp_path))
    assert train.main(["--quick"], results=tmp_path / "train.json") == 2
    assert str(tmp_path / "quora-train.csv") in capsys.readouterr().err
    assert not (tmp_path / "train.json").exists()


@pytest.mark.parametrize("wrong", [["--updates", "0"], ["--rounds", "x"]])
def test_counts_are_whole_numbers_from_1(wrong: list[str]) -> None:
    from bench import train

    with pytest.raises(SystemExit) as stopped:
        train.main(wrong)
    assert stopped.value.code == 2
