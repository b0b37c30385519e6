"""The files of a Hugging Face checkpoint as plain values and tensors; nothing in them is trusted."""

import json
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from polytask.errors import ModelError

MAX_JSON_BYTES = 20_000_000  # the index of a checkpoint of many shards
MAX_SHARDS = 1000
WEIGHT_FILES = (
    "model.safetensors",
    "pytorch_model.bin",
)  # the first that is there, whole or sharded, is read


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The object in a JSON file; `what` says in messages what the file should be."""
    if not path.is_file():
        raise ModelError(f"{path}: is missing; it should be {what}.")
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_JSON_BYTES + 1)
        if len(raw) > MAX_JSON_BYTES:
            raise ModelError(f"{path}: {what} should be at most {MAX_JSON_BYTES:,} bytes.")
        values = json.loads(raw)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read as {what} ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{path}: {what} should be valid JSON ({error}).") from None
    if not isinstance(values, dict):
        raise ModelError(f"{path}: {what} should be a JSON object. Found a {type(values).__name__}.")
    return values


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint by name, on the CPU; those of safetensors are mapped, not yet read."""
    for file_name in WEIGHT_FILES:
        if (folder / file_name).is_file():
            return _read_file(folder / file_name)
        if (folder / f"{file_name}.index.json").is_file():
            return _read_shards(folder / f"{file_name}.index.json", Path(file_name).suffix)
    raise ModelError(f"{folder}: holds no weights; there should be one of {', '.join(WEIGHT_FILES)}.")


def _read_shards(index: Path, suffix: str) -> dict[str, Tensor]:
    places = read_json(index, "an index of shards").get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ModelError(f"{index}: weight_map should name the shard of each tensor.")
    for shard in places.values():
        # A name alone, so that nothing outside the folder is read.
        sound = isinstance(shard, str) and Path(shard).name == shard and "\\" not in shard
        if not sound or Path(shard).suffix != suffix:
            raise ModelError(
                f"{index}: a shard should be the name of a {suffix} file in the same folder. Found {shard!r}."
            )
    shards = dict.fromkeys(places.values())
    if len(shards) > MAX_SHARDS:
        raise ModelError(f"{index}: there should be at most {MAX_SHARDS} shards. Found {len(shards)}.")
    tensors: dict[str, Tensor] = {}
    for shard in shards:
        found = _read_file(index.parent / shard)
        if twice := sorted(tensors.keys() & found.keys()):
            raise ModelError(f"{index}: tensor {twice[0]!r} stands in more than one shard.")
        tensors |= found
    if absent := sorted(places.keys() - tensors.keys()):
        raise ModelError(f"{index}: tensor {absent[0]!r} is in the index but not in {places[absent[0]]!r}.")
    return tensors


def _read_file(path: Path) -> dict[str, Tensor]:
    return _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (SafetensorError, OSError, KeyError, RuntimeError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read as safetensors ({_first_line(error)}).") from None
    return tensors


def _read_torch(path: Path) -> dict[str, Tensor]:
    """A file written by `torch.save`, read without running anything that it says."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                # torch.save never compresses; a few bytes that unpack to many would be an attack.
                if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                    raise ModelError(f"{path}: a file of torch.save should not be compressed.")
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except ModelError:
        raise
    except Exception as error:  # unpickling what is damaged or hostile raises almost anything
        raise ModelError(f"{path}: cannot be read as tensors ({_first_line(error)}).") from None
    if not isinstance(tensors, dict):
        raise ModelError(f"{path}: should hold tensors by name. Found a {type(tensors).__name__}.")
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise ModelError(f"{path}: should hold tensors by name. Found {name!r}: {type(tensor).__name__}.")
        if tensor.layout is not torch.strided or tensor.device.type != "cpu" or _is_repeated(tensor):
            raise ModelError(f"{path}: tensor {name!r} should be dense and stored whole.")
    return dict(tensors)


def _is_repeated(tensor: Tensor) -> bool:
    """Whether the tensor claims more elements than the file holds for it."""
    return tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
