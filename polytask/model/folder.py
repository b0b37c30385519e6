"""The model folder: one small model for all its tasks, in files that hold data and nothing that runs."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from polytask.choices import AdapterRecipe
from polytask.errors import ModelError
from polytask.files import sha256_of, write_bytes, write_whole
from polytask.model.description import FORMAT, VERSION, read_model_config
from polytask.model.multitask import MultitaskModel
from polytask.model.names import config_from_dict, config_to_dict
from polytask.model.weights import build_encoder, encoder_tensors
from polytask.recipe_tasks import TASK_NAME
from polytask.tasks import Task


def save_model(folder: Path, model: MultitaskModel, settings: Mapping[str, Any]) -> None:
    """Write `config.json` and `model.safetensors`; `settings` are what else prediction needs."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "format": FORMAT,
        "version": VERSION,
        **settings,
        "encoder": config_to_dict(model.encoder.config),
        "adapter": {**model.adapter.model_dump(exclude_none=True), "on": model.adapters_on},
        "tasks": {name: task.to_dict() for name, task in model.tasks.items()},
    }
    tensors = {f"encoder.{name}": tensor for name, tensor in encoder_tensors(model.encoder).items()}
    tensors |= {
        name: tensor for name, tensor in model.state_dict().items() if not name.startswith("encoder.")
    }
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_whole(folder / "model.safetensors", lambda unfinished: save_file(whole, unfinished))
    config["sha256"] = sha256_of(folder / "model.safetensors")
    write_bytes(folder / "config.json", (json.dumps(config, indent=2) + "\n").encode())


def load_model(folder: Path) -> tuple[MultitaskModel, dict[str, Any]]:
    """Read a model folder: the model and its `config.json`."""
    config = read_model_config(folder)
    try:
        tasks = {name: Task.from_dict(values) for name, values in config["tasks"].items()}
        chosen = dict(config["adapter"])
        adapters_on = bool(chosen.pop("on"))
        adapter = AdapterRecipe.model_validate(chosen)
        encoder_config = config_from_dict(config["encoder"], folder / "config.json")
        if sha256_of(folder / "model.safetensors") != config["sha256"]:
            raise ModelError(f"{folder / 'model.safetensors'}: its SHA-256 is not the one in config.json.")
        tensors = load_file(folder / "model.safetensors")
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{folder / 'model.safetensors'}: cannot be read ({error}).") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{folder / 'config.json'}: not a sound model description ({error}).") from None
    names = [name for name in tasks if not TASK_NAME.fullmatch(name)]
    if names:
        raise ModelError(f"{folder / 'config.json'}: {names[0]!r} is not a task name.")
    shared = {k.removeprefix("encoder."): v for k, v in tensors.items() if k.startswith("encoder.")}
    encoder, report = build_encoder(encoder_config, shared, folder / "model.safetensors")
    if report.missing:
        raise ModelError(f"{folder / 'model.safetensors'}: {report}")
    model = MultitaskModel(encoder, tasks, torch.Generator(), adapter)
    model.adapters_on = adapters_on
    own = {name: tensor for name, tensor in tensors.items() if not name.startswith("encoder.")}
    missing, unexpected = [], []
    try:
        missing, unexpected = model.load_state_dict(own, strict=False)
    except RuntimeError as error:
        shapes = re.sub(r"\s+", " ", str(error))
        raise ModelError(f"{folder / 'model.safetensors'}: does not fit config.json ({shapes}).") from None
    missing = [name for name in missing if not name.startswith("encoder.")]
    if missing or unexpected:
        raise ModelError(
            f"{folder / 'model.safetensors'}: does not fit config.json "
            f"(missing: {', '.join(missing) or 'none'}; left over: {', '.join(unexpected) or 'none'})."
        )
    return model.eval(), config
