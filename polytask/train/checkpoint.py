"""Checkpoints: everything that an interrupted run needs to go on as if nothing had happened."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from polytask.errors import UserError
from polytask.files import sha256_of, write_bytes, write_whole


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors to one safetensors file, whole or not at all."""
    whole = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    try:
        write_whole(path, lambda unfinished: save_file(whole, unfinished))
    except SafetensorError as error:  # as safetensors calls a full disk
        raise OSError(f"{path}: cannot be written ({error})") from None


def save_checkpoint(
    folder: Path, update: int, tensors: Mapping[str, Tensor], state: dict[str, Any], kept: int
) -> None:
    """Write the checkpoint of one update, and keep so many; its JSON file, written last, makes it valid."""
    folder.mkdir(exist_ok=True)
    path = folder / f"update-{update:08d}.safetensors"
    save_tensors(path, tensors)
    record = {**state, "sha256": sha256_of(path)}
    write_bytes(path.with_suffix(".json"), json.dumps(record).encode())
    written = sorted(folder.glob("update-*.json"))
    for old in written[:-kept]:
        old.unlink()
        old.with_suffix(".safetensors").unlink(missing_ok=True)
    named = {best["update"] for file in written[-kept:] if (best := _best_of(file)) is not None}
    for old in folder.glob("best-*.safetensors"):
        if old not in {best_path(folder, number) for number in named}:
            old.unlink()


def forget_unfinished(run: Path) -> None:
    """Remove what a killed process left of files that it had not finished."""
    for path in run.rglob(".*.tmp"):
        path.unlink(missing_ok=True)
    for path in (run / "checkpoints").glob("update-*.safetensors"):
        if not path.with_suffix(".json").exists():
            path.unlink()


def _best_of(record: Path) -> dict[str, Any] | None:
    """What a checkpoint names as the best so far."""
    try:
        best: dict[str, Any] | None = json.loads(record.read_bytes()).get("best")
    except (OSError, ValueError):
        return None
    return best


def best_path(folder: Path, update: int) -> Path:
    """Where the tensors of the evaluation after this update are kept, if it was the best so far."""
    return folder / f"best-{update:08d}.safetensors"


def save_best(folder: Path, update: int, tensors: Mapping[str, Tensor]) -> str:
    """Keep the best tensors so far, beside those that a checkpoint still names; returns their checksum."""
    folder.mkdir(exist_ok=True)
    save_tensors(best_path(folder, update), tensors)
    return sha256_of(best_path(folder, update))


def load_best(folder: Path, best: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors that `save_best` kept; `best` names their update and checksum."""
    path = best_path(folder, best["update"])
    try:
        if sha256_of(path) != best["sha256"]:
            raise ValueError("its checksum does not match")
        return load_file(path)
    except (SafetensorError, ValueError) as error:
        raise OSError(f"{path}: the best model so far is damaged ({error})") from None


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any], list[str]] | None:
    """The newest sound checkpoint and what was wrong with newer ones; None where none was written yet."""
    damaged: list[str] = []
    for path in sorted(folder.glob("update-*.json"), reverse=True):
        tensors_path = path.with_suffix(".safetensors")
        try:
            state = json.loads(path.read_bytes())
            if sha256_of(tensors_path) != state.pop("sha256"):
                raise ValueError("its checksum does not match")
            if state.get("best") is not None:
                load_best(folder, state["best"])  # an unsound best would be found out only at the end
            return load_file(tensors_path), state, damaged
        except (OSError, ValueError, KeyError, AttributeError, SafetensorError) as error:
            damaged.append(f"{tensors_path.name} is damaged ({error}): falling back to the one before it.")
    if damaged:
        raise UserError(f"--resume: none of the checkpoints in {folder} is sound; begin a new run.")
    return None


def pack_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimiser's state as named tensors."""
    states = optimizer.state_dict()["state"]
    return {
        f"optimizer.{number}.{name}": torch.as_tensor(value)
        for number, values in states.items()
        for name, value in values.items()
    }


def unpack_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put the state that `pack_optimizer` took back into an optimiser built the same way."""
    states: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            _, number, name = key.split(".", 2)
            states.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": states})
