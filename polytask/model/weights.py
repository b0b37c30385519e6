"""An encoder out of a Hugging Face folder, and back into one."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from polytask.errors import ModelError
from polytask.files import write_whole
from polytask.model.architectures import AnyEncoder, new_encoder
from polytask.model.checkpoint_files import read_json, read_tensors
from polytask.model.config import EncoderConfig
from polytask.model.names import PREFIXES, config_from_dict, config_to_dict, tensor_names

INITIAL_STD = 0.02  # of a pooler that the checkpoint lacks, as all members of the family were initialised
READABLE_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
OLD_ENDINGS = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
SHOWN_NAMES = 5


@dataclass(frozen=True)
class LoadReport:
    """Where a checkpoint and the encoder did not match; the names are the checkpoint's."""

    missing: tuple[str, ...] = ()  # freshly initialised
    left_over: tuple[str, ...] = ()  # not read

    def sentences(self) -> tuple[str, ...]:
        """What a user should know, one sentence a matter; empty when everything matched."""
        told = []
        if self.missing:
            told.append(f"Not in the checkpoint and freshly initialised: {_listed(self.missing)}.")
        if self.left_over:
            told.append(f"In the checkpoint but no part of the encoder: {_listed(self.left_over)}.")
        return tuple(told)

    def __str__(self) -> str:
        return " ".join(self.sentences()) or "Every tensor of the checkpoint was used."


def read_config(folder: Path) -> EncoderConfig:
    """The sizes of the encoder in a Hugging Face folder."""
    path = folder / "config.json"
    return config_from_dict(read_json(path, "a Hugging Face config.json"), path)


def load_encoder(folder: Path, generator: torch.Generator | None = None) -> tuple[AnyEncoder, LoadReport]:
    """The encoder in a Hugging Face folder, in fp32 on the CPU, and what did not match.

    Only a pooler may be missing: it is drawn from `generator`, or from one seeded with 0.
    """
    config = read_config(folder)
    return build_encoder(config, read_tensors(folder), folder, generator)


def build_encoder(
    config: EncoderConfig,
    tensors: Mapping[str, Tensor],
    source: object,
    generator: torch.Generator | None = None,
) -> tuple[AnyEncoder, LoadReport]:
    """An encoder from tensors under Hugging Face names, which are copied; `source` names them in messages."""
    with torch.device("meta"), _NoInitialValues():
        encoder = new_encoder(config)
    prefix = _find_prefix(config, tensors, source)
    names = tensor_names(config)
    generator = generator if generator is not None else torch.Generator().manual_seed(0)
    state: dict[str, Tensor] = {}
    missing: list[str] = []
    used: set[str] = set()
    for ours, wanted in encoder.state_dict().items():
        stored = {prefix + name: _find_name(prefix + name, tensors) for name in names[ours]}
        if ours.startswith("pooler.") and None in stored.values():
            missing += stored
            state[ours] = _initial(wanted.shape, generator)
            continue
        rows = wanted.shape[0] // len(stored)
        parts = [
            _checked(tensors, found or name, (rows, *wanted.shape[1:]), source)
            for name, found in stored.items()
        ]
        used.update(found for found in stored.values() if found is not None)
        # In fresh memory: a mapped file may change under us and is not aligned.
        state[ours] = torch.cat([part.to(torch.float32) for part in parts])
        if not torch.isfinite(state[ours].sum()):
            holds = " or ".join(repr(found) for found in stored.values())
            raise ModelError(f"{source}: tensor {holds} holds values that are not finite.")
    encoder.load_state_dict(state, assign=True)
    left_over = (name for name in tensors if name not in used and not name.endswith("position_ids"))
    return encoder, LoadReport(tuple(missing), tuple(sorted(left_over)))


def encoder_tensors(encoder: AnyEncoder) -> dict[str, Tensor]:
    """The encoder's tensors under Hugging Face names, to be written; most share the encoder's memory."""
    names = tensor_names(encoder.config)
    tensors: dict[str, Tensor] = {}
    for ours, tensor in encoder.state_dict().items():
        parts = tensor.detach().chunk(len(names[ours]))
        # safetensors refuses tensors that share memory with each other.
        tensors |= {
            name: part.clone() if len(parts) > 1 else part
            for name, part in zip(names[ours], parts, strict=True)
        }
    return tensors


def save_encoder(encoder: AnyEncoder, folder: Path) -> None:
    """Write a folder that `transformers.AutoModel` loads; each file appears whole or not at all."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.cpu().contiguous() for name, tensor in encoder_tensors(encoder).items()}
    text = json.dumps(config_to_dict(encoder.config), indent=2) + "\n"
    write_whole(folder / "model.safetensors", lambda path: save_file(tensors, path, {"format": "pt"}))
    write_whole(folder / "config.json", lambda path: path.write_text(text, encoding="utf-8"))


class _NoInitialValues(TorchFunctionMode):
    """Skips `torch.nn.init`: the values come from a checkpoint, and drawing others first takes longer."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def _find_prefix(config: EncoderConfig, tensors: Mapping[str, Tensor], source: object) -> str:
    prefixes = ("", PREFIXES[config.architecture], "model.", f"model.{PREFIXES[config.architecture]}")
    words = tensor_names(config)["embeddings.words.weight"][0]
    for prefix in prefixes:
        if prefix + words in tensors:
            return prefix
    raise ModelError(
        f"{source}: no tensor {words!r}, with or without the prefix "
        f"{prefixes[1]!r}; this is not the checkpoint of a {config.architecture} encoder."
    )


def _find_name(name: str, tensors: Mapping[str, Tensor]) -> str | None:
    """The name under which the checkpoint holds a tensor; conversions from TensorFlow say gamma and beta."""
    if name in tensors:
        return name
    for ending, old_ending in OLD_ENDINGS.items():
        if name.endswith(ending) and (old := name.removesuffix(ending) + old_ending) in tensors:
            return old
    return None


def _checked(tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...], source: object) -> Tensor:
    tensor = tensors.get(name)
    if tensor is None:
        raise ModelError(f"{source}: tensor {name!r} is missing.")
    if tuple(tensor.shape) != shape:
        raise ModelError(
            f"{source}: tensor {name!r} should have shape {list(shape)}, as config.json says. "
            f"Found {list(tensor.shape)}."
        )
    if tensor.dtype not in READABLE_DTYPES:
        allowed = ", ".join(str(dtype).removeprefix("torch.") for dtype in READABLE_DTYPES)
        found = str(tensor.dtype).removeprefix("torch.")
        raise ModelError(f"{source}: tensor {name!r} should be one of {allowed}. Found {found}.")
    return tensor


def _initial(shape: torch.Size, generator: torch.Generator) -> Tensor:
    fresh = torch.zeros(shape)
    return fresh.normal_(std=INITIAL_STD, generator=generator) if len(shape) > 1 else fresh


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(repr(name) for name in names[:SHOWN_NAMES])
    rest = len(names) - SHOWN_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown
