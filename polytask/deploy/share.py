"""Models on the hub: a model folder pushed there, and one pulled from there."""

import shutil
from pathlib import Path

from polytask.errors import ModelError, UserError
from polytask.files import sha256_of
from polytask.hub import PREFIX, HubName, fetch_snapshot, parse_name, push_folder
from polytask.model.description import read_model_config

NEEDED = ("config.json", "model.safetensors", "tokenizer.json")
FILES = (*NEEDED, "README.md")


def push(path: str | Path, name: str, *, private: bool = False, message: str | None = None) -> str:
    """Upload a model folder, or the model of a run folder, as one commit; returns the commit's address.

    `name` is `owner/name`, or `owner/name@branch` for another branch than the main one.
    """
    folder, where = _model_folder(Path(path)), _name(name)
    config = read_model_config(folder)
    missing = [file for file in NEEDED if not (folder / file).is_file()]
    if missing:
        raise ModelError(f"{folder}: lacks {', '.join(missing)}, so that nobody could load it.")
    if sha256_of(folder / "model.safetensors") != config["sha256"]:
        raise ModelError(f"{folder / 'model.safetensors'}: its SHA-256 is not the one in config.json.")
    files = [file for file in FILES if (folder / file).is_file()]
    tasks = ", ".join(config["tasks"])
    return push_folder(where, folder, files, private=private, message=message or f"A model for {tasks}")


def pull(name: str, out: str | Path | None = None) -> Path:
    """The folder of a model on the hub, in the cache or copied to `out`; its checksum is checked."""
    where = _name(name)
    folder = fetch_snapshot(where, FILES)
    config = _config(folder, where)
    if sha256_of(folder / "model.safetensors") != config.get("sha256"):
        raise ModelError(f"{where}: the SHA-256 of its model.safetensors is not the one in its config.json.")
    if out is None:
        return folder
    target = Path(out)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserError(f"--out {target}: should be a new or an empty folder.")
    target.mkdir(parents=True, exist_ok=True)
    for file in FILES:
        if (folder / file).is_file():
            shutil.copyfile(folder / file, target / file)  # the cache holds links
    return target


def folder_of(path: str | Path) -> Path:
    """The folder that a user means: a path as it is, or the cached copy of `hub:owner/name[@revision]`."""
    return pull(str(path)) if str(path).startswith(PREFIX) else Path(path)


def _config(folder: Path, where: HubName) -> dict[str, object]:
    missing = [file for file in NEEDED if not (folder / file).is_file()]
    if missing:
        raise ModelError(f"{where}: is not a polytask model; it lacks {', '.join(missing)}.")
    return read_model_config(folder)


def _model_folder(path: Path) -> Path:
    return path / "model" if (path / "model" / "config.json").exists() else path


def _name(text: str) -> HubName:
    name = parse_name(text)
    if name is None:
        raise UserError(f"a model on the hub should be owner/name or owner/name@revision. Found {text!r}.")
    return name
