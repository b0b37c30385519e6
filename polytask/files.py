"""Files that appear whole or not at all, and their checksums."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, bring it to the disk, and put it in its place in one step.

    A reader finds the old content or the new, never a part of it, even after a power cut.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    unfinished.touch()
    mode = unfinished.stat().st_mode  # what the user's umask gives; safetensors would leave 0600
    try:
        write(unfinished)
        unfinished.chmod(mode)
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    _sync_folder(path.parent)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a small file whole or not at all."""
    write_whole(path, lambda unfinished: unfinished.write_bytes(data))


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_folder(folder: Path) -> None:
    """Make a rename last; only POSIX systems let a folder be opened for that."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
