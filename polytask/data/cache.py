"""Where cached files live, and how a cache entry comes to be whole or not at all."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from polytask.errors import DataError
from polytask.files import write_bytes

BLOCK = 2**20


def cache_folder() -> Path:
    """`$POLYTASK_CACHE`, or `~/.cache/polytask`."""
    named = os.environ.get("POLYTASK_CACHE")
    return Path(named).expanduser().absolute() if named else Path.home() / ".cache" / "polytask"


def file_hash(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    return digest.hexdigest()


def build_folder(final: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` write a new folder beside `final`, then put it in its place in one step.

    An older `final` is set aside first, so a reader that has it memory-mapped keeps its pages.
    """
    with writable(final.parent):
        final.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".new-", dir=final.parent))
        try:
            fill(work)
            if final.exists():
                os.replace(final, work.with_name(work.name + ".old"))
            try:
                os.rename(work, final)
            except OSError:
                if not final.exists():  # else another process has just built the same entry
                    raise
        finally:
            shutil.rmtree(work, ignore_errors=True)
            shutil.rmtree(work.with_name(work.name + ".old"), ignore_errors=True)


def write_file(final: Path, content: bytes) -> None:
    """Write a small file of the cache in one step."""
    with writable(final.parent):
        final.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(final, content)


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """Say which folder it is, and how to name another, when the cache cannot be written."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{folder}: the cache cannot be written ({error.strerror}); POLYTASK_CACHE names another folder."
        ) from None
