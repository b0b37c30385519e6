"""Checkpoints in every form that Hugging Face folders have had, and what is said of damaged ones."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_checkpoints import QUERY, as_shards, as_torch_file, assert_equal, make_encoder

from polytask.errors import ModelError
from polytask.model.weights import load_encoder, read_config


def test_shards_are_read_as_one(folder: Path) -> None:
    as_shards(folder)
    assert_equal(load_encoder(folder)[0], make_encoder())


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_of_torch_save_is_read(folder: Path, zipped: bool) -> None:
    as_torch_file(folder, _use_new_zipfile_serialization=zipped)
    assert_equal(load_encoder(folder)[0], make_encoder())


def test_shards_of_torch_save_are_read(folder: Path) -> None:
    path = as_torch_file(folder, "pytorch_model-00001-of-00001.bin")
    places = dict.fromkeys(torch.load(path, weights_only=True), path.name)
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": places}))
    assert_equal(load_encoder(folder)[0], make_encoder())


def test_safetensors_are_preferred_to_torch_files(folder: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(b"not read")
    assert_equal(load_encoder(folder)[0], make_encoder())


@pytest.mark.parametrize(
    "shard", ["../outside.safetensors", "/etc/passwd", "a/b.safetensors", "x.bin", "", 3, None]
)
def test_a_shard_outside_the_folder_is_refused(folder: Path, shard: object) -> None:
    index = as_shards(folder)
    save_file({QUERY: torch.zeros(8, 8)}, folder.parent / "outside.safetensors")
    places = json.loads(index.read_text())["weight_map"]
    index.write_text(json.dumps({"weight_map": {**places, QUERY: shard}}))
    with pytest.raises(
        ModelError, match=r"a shard should be the name of a \.safetensors file in the same folder"
    ):
        load_encoder(folder)


@pytest.mark.parametrize("weight_map", [None, [], {}, "x", {"a": ["b"]}])
def test_an_index_without_a_map_is_refused(folder: Path, weight_map: object) -> None:
    as_shards(folder).write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(ModelError, match=r"index\.json: "):
        load_encoder(folder)


def test_a_tensor_that_is_only_in_the_index_is_refused(folder: Path) -> None:
    index = as_shards(folder)
    places = json.loads(index.read_text())["weight_map"]
    index.write_text(json.dumps({"weight_map": {**places, "ghost": places[QUERY]}}))
    with pytest.raises(ModelError, match="'ghost' is in the index but not in"):
        load_encoder(folder)


def test_a_tensor_in_two_shards_is_refused(folder: Path) -> None:
    index = as_shards(folder)
    places = json.loads(index.read_text())["weight_map"]
    other = next(shard for shard in places.values() if shard != places[QUERY])
    save_file({**load_file(folder / other), QUERY: torch.zeros(8, 8)}, folder / other)
    with pytest.raises(ModelError, match=f"'{QUERY}' stands in more than one shard"):
        load_encoder(folder)


def test_a_shard_that_is_not_there_is_refused(folder: Path) -> None:
    as_shards(folder)
    (folder / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(ModelError, match="model-00002-of-00003"):
        load_encoder(folder)


def test_a_folder_without_weights_says_which_files_are_read(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"one of model\.safetensors, pytorch_model\.bin"):
        load_encoder(folder)


@pytest.mark.parametrize(
    "content", [b"", b"\x08", b"\xff" * 100, b"version https://git-lfs.github.com/spec/v1\n"]
)
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_damaged_file_is_refused(folder: Path, name: str, content: bytes) -> None:
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"{name}: cannot be read as"):
        load_encoder(folder)


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_cut_off_file_is_refused(folder: Path, name: str, kept: float) -> None:
    path = folder / name
    if name.endswith(".bin"):
        as_torch_file(folder)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
    with pytest.raises(ModelError, match=f"{name}: cannot be read as"):
        load_encoder(folder)


class Hostile:
    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return (os.mkdir, ("made-by-a-checkpoint",))


def test_a_torch_file_that_would_run_something_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "model.safetensors").unlink()
    torch.save({QUERY: Hostile()}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="cannot be read as tensors"):
        load_encoder(folder)
    assert not (folder / "made-by-a-checkpoint").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([1, 2], "should hold tensors by name. Found a list"),
        ({QUERY: 3}, "Found .*: int"),
        ({3: torch.zeros(1)}, "Found 3: Tensor"),
        ({QUERY: torch.zeros(1).expand(8, 8)}, "should be dense and stored whole"),
        ({QUERY: torch.eye(8).to_sparse()}, "should be dense and stored whole"),
        ({QUERY: torch.zeros(8, 8, device="meta")}, "should be dense and stored whole"),
    ],
)
def test_a_torch_file_of_anything_but_plain_tensors_is_refused(
    folder: Path, content: object, message: str
) -> None:
    (folder / "model.safetensors").unlink()
    torch.save(content, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=message):
        load_encoder(folder)


def test_a_compressed_torch_file_is_refused(folder: Path) -> None:
    path = as_torch_file(folder)
    with ZipFile(path) as archive:
        entries = {info.filename: archive.read(info) for info in archive.infolist()}
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    with pytest.raises(ModelError, match="should not be compressed"):
        load_encoder(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "should be valid JSON"),
        (b"{", "should be valid JSON"),
        (b"\xff\xfe\x00", "should be valid JSON"),
        (b"[" * 100_000, "should be valid JSON"),
        (b"[]", "should be a JSON object. Found a list"),
    ],
)
def test_a_malformed_config_is_refused(folder: Path, content: bytes, message: str) -> None:
    (folder / "config.json").write_bytes(content)
    with pytest.raises(ModelError, match=rf"config\.json.*{message}"):
        read_config(folder)


def test_a_folder_without_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json: is missing"):
        read_config(tmp_path)


def test_a_config_of_absurd_size_is_refused(folder: Path) -> None:
    (folder / "config.json").write_bytes(b" " * 20_000_001)
    with pytest.raises(ModelError, match="at most 20,000,000 bytes"):
        read_config(folder)
