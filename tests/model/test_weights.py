"""What becomes of a checkpoint's tensors: which are used, renamed, missing, left over or refused."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_checkpoints import (
    BERT,
    CONFIGS,
    POOLER,
    QUERY,
    TOKENS,
    assert_equal,
    make_encoder,
    rewrite,
    with_tensor,
)
from torch import Tensor

from polytask.errors import ModelError
from polytask.model.names import PREFIXES
from polytask.model.weights import LoadReport, build_encoder, encoder_tensors, load_encoder, save_encoder


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_written_folder_is_read_back_exactly(kind: str, tmp_path: Path) -> None:
    encoder = make_encoder(CONFIGS[kind])
    save_encoder(encoder, tmp_path / "new" / "folder")
    found, report = load_encoder(tmp_path / "new" / "folder")
    assert_equal(found, encoder)
    assert report == LoadReport()


@pytest.mark.parametrize("kind", CONFIGS)
def test_tensors_under_hugging_face_names_build_the_same_encoder(kind: str) -> None:
    encoder = make_encoder(CONFIGS[kind])
    found, report = build_encoder(encoder.config, encoder_tensors(encoder), "a test")
    assert_equal(found, encoder)
    assert report == LoadReport()


def test_an_encoder_shares_no_memory_with_what_it_was_built_from() -> None:
    tensors = encoder_tensors(make_encoder())
    found, _ = build_encoder(BERT, tensors, "a test")
    before = found(TOKENS)
    for tensor in tensors.values():
        tensor.fill_(7)
    assert torch.equal(found(TOKENS), before)


def test_a_loaded_encoder_can_be_trained(folder: Path) -> None:
    encoder, _ = load_encoder(folder)
    encoder(TOKENS)[..., 0].sum().backward()
    layers = [parameter for name, parameter in encoder.named_parameters() if "pooler" not in name]
    assert all(parameter.is_leaf and parameter.grad is not None for parameter in layers)


def test_saving_replaces_an_older_folder_and_leaves_nothing_else(folder: Path) -> None:
    other = make_encoder(CONFIGS["electra"])
    save_encoder(other, folder)
    assert_equal(load_encoder(folder)[0], other)
    assert sorted(os.listdir(folder)) == ["config.json", "model.safetensors"]


def test_the_weights_may_be_read_by_whoever_may_read_the_config(folder: Path) -> None:
    modes = [(folder / name).stat().st_mode for name in ("config.json", "model.safetensors")]
    assert modes[0] == modes[1]


def test_a_save_that_fails_keeps_the_old_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (folder / "model.safetensors").read_bytes()

    def fail(_: dict[str, Tensor], path: Path, *__: object) -> None:
        path.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", fail)
    with pytest.raises(OSError, match="No space"):
        save_encoder(make_encoder(CONFIGS["electra"]), folder)
    assert (folder / "model.safetensors").read_bytes() == before
    assert sorted(os.listdir(folder)) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta", "distilbert", "electra"])
@pytest.mark.parametrize("outer", ["", "model."])
def test_a_prefix_before_every_name_is_understood(kind: str, outer: str, tmp_path: Path) -> None:
    encoder = make_encoder(CONFIGS[kind])
    prefix = outer + PREFIXES[encoder.config.architecture]
    save_encoder(encoder, tmp_path)
    rewrite(tmp_path, lambda tensors: {prefix + name: tensor for name, tensor in tensors.items()})
    found, report = load_encoder(tmp_path)
    assert_equal(found, encoder)
    assert report == LoadReport()


def test_the_old_names_gamma_and_beta_are_understood(folder: Path) -> None:
    def age(name: str) -> str:
        return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    rewrite(folder, lambda tensors: {f"bert.{age(name)}": tensor for name, tensor in tensors.items()})
    assert any("gamma" in name for name in load_file(folder / "model.safetensors"))
    found, report = load_encoder(folder)
    assert_equal(found, make_encoder())
    assert report == LoadReport()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_read_as_fp32(folder: Path, dtype: torch.dtype) -> None:
    rewrite(folder, lambda tensors: {name: tensor.to(dtype) for name, tensor in tensors.items()})
    wanted = make_encoder().to(dtype).float()
    assert_equal(load_encoder(folder)[0], wanted)


def test_an_index_of_positions_is_neither_missing_nor_left_over(folder: Path) -> None:
    with_tensor(folder, "embeddings.position_ids", torch.arange(10)[None])
    assert load_encoder(folder)[1] == LoadReport()


def test_a_missing_pooler_is_drawn_from_the_generator_and_named(folder: Path) -> None:
    rewrite(folder, lambda tensors: {k: v for k, v in tensors.items() if k not in POOLER})

    def pooler(seed: int) -> tuple[Tensor, LoadReport]:
        encoder, report = load_encoder(folder, torch.Generator().manual_seed(seed))
        assert encoder.pooler is not None
        assert not encoder.pooler.bias.any()
        return encoder.pooler.weight.detach(), report

    first, report = pooler(1)
    assert report.missing == POOLER
    assert "freshly initialised: 'pooler.dense.weight', 'pooler.dense.bias'" in str(report)
    assert torch.equal(first, pooler(1)[0])
    assert not torch.equal(first, pooler(2)[0])
    assert 0.01 < first.std() < 0.03
    assert torch.equal(load_encoder(folder)[0].state_dict()["pooler.weight"], pooler(0)[0])


def test_what_is_no_part_of_the_encoder_is_named(folder: Path) -> None:
    for number in range(7):
        with_tensor(folder, f"cls.part{number}", torch.zeros(2))
    encoder, report = load_encoder(folder)
    assert_equal(encoder, make_encoder())
    assert report.left_over == tuple(f"cls.part{number}" for number in range(7))
    assert report.sentences() == (
        "In the checkpoint but no part of the encoder: "
        "'cls.part0', 'cls.part1', 'cls.part2', 'cls.part3', 'cls.part4' and 2 more.",
    )


def test_layers_beyond_the_config_are_named(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    encoder, report = load_encoder(folder)
    assert len(encoder.layers) == 1
    assert len(report.left_over) == 16
    assert all(name.startswith("encoder.layer.1.") for name in report.left_over)


def test_a_missing_tensor_is_refused_by_name(folder: Path) -> None:
    rewrite(folder, lambda tensors: {k: v for k, v in tensors.items() if k != QUERY})
    with pytest.raises(ModelError, match=f"tensor '{QUERY}' is missing"):
        load_encoder(folder)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.zeros(8, 9), r"should have shape \[8, 8\], .*Found \[8, 9\]"),
        (torch.zeros(64), r"should have shape \[8, 8\], .*Found \[64\]"),
        (torch.zeros(8, 8, dtype=torch.int8), "should be one of float32, .* Found int8"),
        (torch.full((8, 8), torch.nan), "not finite"),
        (torch.full((8, 8), torch.inf), "not finite"),
    ],
)
def test_a_tensor_that_does_not_fit_is_refused_by_name(folder: Path, tensor: Tensor, message: str) -> None:
    with_tensor(folder, QUERY, tensor)
    with pytest.raises(ModelError, match=f"{QUERY}.*{message}"):
        load_encoder(folder)


def test_an_infinite_value_in_any_part_of_a_joined_tensor_is_refused_under_its_own_name(folder: Path) -> None:
    value = QUERY.replace("query", "value")
    with_tensor(folder, value, torch.full((8, 8), torch.nan))
    with pytest.raises(ModelError, match=f"'{value}'.*not finite"):
        load_encoder(folder)


def test_the_checkpoint_of_another_architecture_is_refused(folder: Path) -> None:
    rewrite(folder, lambda tensors: {f"roberta.{name}": tensor for name, tensor in tensors.items()})
    with pytest.raises(ModelError, match="not the checkpoint of a bert encoder"):
        load_encoder(folder)
