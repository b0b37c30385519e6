"""A checkpoint is whole or not there, and a damaged one is passed over with a word."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from polytask.errors import UserError
from polytask.train.checkpoint import (
    load_checkpoint,
    pack_optimizer,
    save_checkpoint,
    unpack_optimizer,
)


def write(folder: Path, *updates: int) -> None:
    for update in updates:
        save_checkpoint(folder, update, {"weights": torch.full((3,), float(update))}, {"update": update}, 2)


def load(folder: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any], list[str]]:
    found = load_checkpoint(folder)
    assert found is not None
    return found


def test_the_newest_checkpoint_is_loaded_and_only_two_are_kept(tmp_path: Path) -> None:
    write(tmp_path, 5, 10, 100)
    tensors, state, damaged = load(tmp_path)
    assert (state, damaged) == ({"update": 100}, [])
    assert tensors["weights"].tolist() == [100.0] * 3
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"update-{n:08d}.{end}" for n in (10, 100) for end in ("json", "safetensors")]


def test_no_folder_and_an_empty_one_hold_no_checkpoint(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path) is None
    assert load_checkpoint(tmp_path / "nowhere") is None


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "json", "no checksum"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before_with_a_message(
    tmp_path: Path, damage: str
) -> None:
    write(tmp_path, 1, 2)
    tensors_path = tmp_path / "update-00000002.safetensors"
    raw = bytearray(tensors_path.read_bytes())
    match damage:
        case "flip":
            raw[-1] ^= 1
            tensors_path.write_bytes(raw)
        case "cut":
            tensors_path.write_bytes(raw[:-1])
        case "gone":
            tensors_path.unlink()
        case "json":
            tensors_path.with_suffix(".json").write_text("{")
        case "no checksum":
            tensors_path.with_suffix(".json").write_text("{}")
    _, state, damaged = load(tmp_path)
    assert state == {"update": 1}
    (message,) = damaged
    assert message.startswith("update-00000002.safetensors is damaged (")
    assert message.endswith("falling back to the one before it.")


def test_a_half_written_checkpoint_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, 1)
    (tmp_path / "update-00000002.safetensors").write_bytes(b"half")
    _, state, damaged = load(tmp_path)
    assert (state, damaged) == ({"update": 1}, [])


def test_a_run_whose_checkpoints_are_all_damaged_is_not_begun_anew_in_silence(tmp_path: Path) -> None:
    write(tmp_path, 1, 2)
    for path in tmp_path.glob("*.safetensors"):
        path.write_bytes(b"")
    with pytest.raises(UserError, match="none of the checkpoints"):
        load_checkpoint(tmp_path)


def test_an_optimisers_state_comes_back_bit_for_bit() -> None:
    def build() -> tuple[nn.Linear, torch.optim.AdamW]:
        layer = nn.Linear(3, 2)
        nn.init.ones_(layer.weight)
        return layer, torch.optim.AdamW(layer.parameters(), lr=0.1)

    layer, optimizer = build()
    layer(torch.arange(3.0)).sum().backward()
    optimizer.step()
    packed = pack_optimizer(optimizer)
    other_layer, other = build()
    unpack_optimizer(other, packed)
    for mine, theirs in zip(layer.parameters(), other_layer.parameters(), strict=True):
        assert optimizer.state[mine].keys() == other.state[theirs].keys()
        for name, value in optimizer.state[mine].items():
            assert torch.equal(value, other.state[theirs][name])
