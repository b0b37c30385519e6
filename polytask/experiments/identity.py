"""What a finished run is recognised by: its recipe, the contents of its files, and the code that trains."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from polytask.files import sha256_of
from polytask.model.locate import locate_encoder
from polytask.recipe import Recipe

PACKAGE = Path(__file__).parent.parent
FOLDERS = ("data", "model", "train")  # whose code decides what a run becomes
UNTOLD = ("data", "checkpoints", "checkpoint_seconds")  # keys that change nothing of the model
ENCODER_FILES = ("*.safetensors", "*.bin", "*.json", "*.txt", "*.model")


def identify(recipe: Recipe) -> dict[str, str]:
    """Digests of a resolved recipe, of the files it names and of the code; equal ones train the same model.

    Where the files lie does not count, only what is in them.
    """
    values = recipe.model_dump(mode="json", exclude_none=True)
    files: dict[str, str] = {"encoder": _encoder(recipe)}
    for key in UNTOLD:
        values.pop(key, None)
    values.pop("encoder")
    for name, task in values["tasks"].items():
        for split in ("train", "dev", "test"):
            if split in task:
                files[f"{name}.{split}"] = file_digest(Path(task.pop(split)))
        for number, join in enumerate(task.get("join", ())):
            files[f"{name}.join.{number}"] = file_digest(Path(join.pop("file")))
    return {"recipe": digest(values), "data": digest(files), "code": code_digest()}


def digest(values: Any) -> str:
    """A digest of plain values."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, computed once for as long as it stays as it is."""
    state = path.stat()
    return _file_digest(path, state.st_size, state.st_mtime_ns)


@cache
def _file_digest(path: Path, size: int, changed: int) -> str:
    return sha256_of(path)


@cache
def code_digest() -> str:
    """A digest of the modules that decide what a run becomes, so that a changed line counts as a version."""
    modules = [*PACKAGE.glob("*.py"), *PACKAGE.joinpath("evaluate").glob("*.py")]
    modules += [path for folder in FOLDERS for path in PACKAGE.joinpath(folder).rglob("*.py")]
    without = {"console.py", "cli.py", "__main__.py", "__init__.py", "api.py", "describe.py"}
    without |= {"significance.py", "resampling.py"}
    return digest(
        {
            path.relative_to(PACKAGE).as_posix(): sha256_of(path)
            for path in modules
            if path.name not in without
        }
    )


def _encoder(recipe: Recipe) -> str:
    folder = locate_encoder(recipe.encoder, recipe.base)
    found = sorted({path for pattern in ENCODER_FILES for path in folder.glob(pattern)})
    return digest({path.name: file_digest(path) for path in found})
