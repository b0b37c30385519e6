"""A hub on the loopback interface: what the hub's client uses of its protocol, and faults."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

TOKEN = "hf_of_a_test"
LFS_FROM = 512  # bytes: larger files are stored as the hub stores large files
PAGE = 3  # entries of a tree listing in one answer

Fault = Literal["429", "500", "cut", "drop"]
Files = dict[str, bytes]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class Repository:
    """Commits by id, and what the branches point to."""

    private: bool = False
    gated: bool = False
    commits: dict[str, Files] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)

    def commit(self, files: Files, branch: str = "main") -> str:
        key = sha256(repr((len(self.commits), sorted(files))).encode())[:40]
        self.commits[key] = dict(files)
        self.branches[branch] = key
        return key

    def find(self, revision: str) -> str | None:
        found = self.branches.get(revision, revision)
        return found if found in self.commits else None


@dataclass
class FakeHub:
    """What the server holds, what it was asked, and the faults that it will commit."""

    repositories: dict[str, Repository] = field(default_factory=dict)  # "models/owner/name" -> repository
    uploads: dict[str, bytes] = field(default_factory=dict)  # LFS objects by SHA-256
    faults: list[tuple[str, Fault]] = field(default_factory=list)  # a part of "METHOD /path", what goes wrong
    asked: list[str] = field(default_factory=list)  # "METHOD /path"
    ranges: list[str] = field(default_factory=list)
    url: str = ""

    def add(self, key: str, files: Files, private: bool = False, gated: bool = False) -> str:
        """A new repository with one commit, whose id is returned."""
        self.repositories[key] = Repository(private, gated)
        return self.repositories[key].commit(files)

    def fault_of(self, request: str) -> Fault | None:
        """The first fault that is meant for a request; each happens once."""
        for place, (part, fault) in enumerate(self.faults):
            if part in request:
                del self.faults[place]
                return fault
        return None


class _Refused(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        self.status, self.code, self.message = status, code, message


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        return None

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        path, query = unquote(parts.path), parse_qs(parts.query)
        request = f"{self.command} {path}"
        self.hub.asked.append(request)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.hub.fault_of(request)
        if fault in ("429", "500"):
            self._send(int(fault), b"{}", {"Retry-After": "1"})
        elif fault == "drop":
            self.close_connection = True
        else:
            try:
                self._route(path, query, body, cut=fault == "cut")
            except _Refused as refused:
                headers = {"X-Error-Code": refused.code, "X-Error-Message": refused.message}
                self._send(refused.status, json.dumps({"error": refused.message}).encode(), headers)

    do_GET = do_HEAD = do_POST = do_PUT = _handle  # noqa: N815 (names that the base class calls)

    def _route(self, path: str, query: dict[str, list[str]], body: bytes, cut: bool) -> None:
        if path.startswith("/cdn/"):
            assert "Authorization" not in self.headers
            self._content(self.hub.uploads[path.split("/")[2]], cut)
        elif path.startswith("/upload/"):
            assert sha256(body) == path.split("/")[2]
            self.hub.uploads[sha256(body)] = body
            self._send(200, b"", {"ETag": '"x"'})
        elif path in ("/verify", "/api/validate-yaml"):
            self._json({"errors": [], "warnings": []})
        elif path == "/api/repos/create":
            self._create(json.loads(body))
        elif path.startswith(("/api/models/", "/api/datasets/")):
            self._api(path.removeprefix("/api/"), query, body)
        elif path.endswith(".git/info/lfs/objects/batch"):
            self._batch(json.loads(body))
        else:
            kind, rest = ("datasets", path[10:]) if path.startswith("/datasets/") else ("models", path[1:])
            name, found, place = rest.partition("/resolve/")
            if not found:
                raise _Refused(404, "", "No such page")
            self._resolve(self._open(f"{kind}/{name}"), place, cut)

    def _open(self, key: str, writing: bool = False) -> Repository:
        """A repository that whoever asks may see, as the hub answers it."""
        given = self.headers.get("Authorization")
        if given is not None and given != f"Bearer {TOKEN}":
            raise _Refused(401, "", "Invalid credentials in Authorization header")
        found = self.hub.repositories.get(key)
        if found is None or (found.private and given is None):
            raise _Refused(401 if given is None else 404, "RepoNotFound", "Repository not found")
        if found.gated:
            raise _Refused(403, "GatedRepo", "Access to this repository is restricted")
        if writing and given is None:
            raise _Refused(401, "", "Invalid username or password.")
        return found

    def _commit_of(self, repository: Repository, revision: str) -> str:
        found = repository.find(revision)
        if found is None:
            raise _Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return found

    def _resolve(self, repository: Repository, place: str, cut: bool) -> None:
        revisions = [*repository.branches, *repository.commits]
        revision = next((name for name in revisions if place.startswith(f"{name}/")), place.split("/")[0])
        commit = self._commit_of(repository, revision)
        content = repository.commits[commit].get(place.removeprefix(f"{revision}/"))
        if content is None:
            raise _Refused(404, "EntryNotFound", "Entry not found")
        about = {"X-Repo-Commit": commit, "ETag": f'"{blob_id(content)}"', "Accept-Ranges": "bytes"}
        if len(content) < LFS_FROM:
            self._content(content, cut, about)
            return
        self.hub.uploads[sha256(content)] = content
        # Large files lie on another host, which is asked without the token.
        storage = self.hub.url.replace("127.0.0.1", "localhost")
        linked = {"X-Linked-Etag": f'"{sha256(content)}"', "X-Linked-Size": str(len(content))}
        self._send(302, b"", {**about, **linked, "Location": f"{storage}/cdn/{sha256(content)}"})

    def _content(self, content: bytes, cut: bool, headers: dict[str, str] | None = None) -> None:
        asked = self.headers.get("Range")
        start = 0
        if asked is not None:
            self.hub.ranges.append(asked)
            start = int(asked.removeprefix("bytes=").split("-")[0])
        sent = content[start:]
        about = {**(headers or {}), "ETag": (headers or {}).get("ETag", f'"{sha256(content)}"')}
        if start:
            about["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self._send(206 if start else 200, sent, about, sent[: len(sent) // 2] if cut else None)

    def _api(self, path: str, query: dict[str, list[str]], body: bytes) -> None:
        kind, owner, name, *rest = path.split("/")
        verb, revision = (rest[0], "/".join(rest[1:])) if rest else ("revision", "main")
        repository = self._open(f"{kind}/{owner}/{name}", writing=self.command == "POST")
        if verb == "preupload":
            asked = json.loads(body)["files"]
            modes = ["lfs" if file["size"] >= LFS_FROM else "regular" for file in asked]
            listed = zip(asked, modes, strict=True)
            self._json(
                {"files": [{"path": f["path"], "uploadMode": m, "shouldIgnore": False} for f, m in listed]}
            )
            return
        if verb == "commit":
            self._commit(repository, revision, body, f"{self.hub.url}/{owner}/{name}")
            return
        if verb == "branch":
            repository.branches.setdefault(revision, repository.branches["main"])
            self._json({})
            return
        commit = self._commit_of(repository, revision)
        files = repository.commits[commit]
        if verb == "tree":
            entries = [{"type": "file", **_entry(name, content)} for name, content in files.items()]
            first = int(query.get("cursor", ["0"])[0])
            more = f"{self.hub.url}{urlsplit(self.path).path}?recursive=True&cursor={first + PAGE}"
            link = {"Link": f'<{more}>; rel="next"'} if first + PAGE < len(entries) else {}
            self._send(200, json.dumps(entries[first : first + PAGE]).encode(), link)
        else:
            siblings = [{"rfilename": name, **_entry(name, content)} for name, content in files.items()]
            self._json({"id": f"{owner}/{name}", "sha": commit, "siblings": siblings})

    def _create(self, asked: dict[str, Any]) -> None:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise _Refused(401, "", "Invalid username or password.")
        if asked["organization"] == "others":
            raise _Refused(403, "", "You don't have the rights to create a model under this namespace")
        key = f"models/{asked['organization']}/{asked['name']}"
        if key in self.hub.repositories:
            self._send(409, json.dumps({"url": f"{self.hub.url}/{key[7:]}"}).encode())
            return
        self.hub.add(key, {}, private=asked.get("visibility") == "private" or bool(asked.get("private")))
        self._json({"url": f"{self.hub.url}/{key[7:]}"})

    def _batch(self, asked: dict[str, Any]) -> None:
        objects = [
            {
                **item,
                "actions": {
                    "upload": {"href": f"{self.hub.url}/upload/{item['oid']}"},
                    "verify": {"href": f"{self.hub.url}/verify"},
                },
            }
            for item in asked["objects"]
        ]
        self._json({"transfer": "basic", "objects": objects})

    def _commit(self, repository: Repository, branch: str, body: bytes, url: str) -> None:
        files = dict(repository.commits[repository.branches[branch]])
        for line in body.splitlines():
            item = json.loads(line)
            value = item["value"]
            if item["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif item["key"] == "lfsFile":
                files[value["path"]] = self.hub.uploads[value["oid"]]
        key = repository.commit(files, branch)
        self._json({"success": True, "commitUrl": f"{url}/commit/{key}", "commitOid": key})

    def _json(self, document: object) -> None:
        self._send(200, json.dumps(document).encode(), {"Content-Type": "application/json"})

    def _send(
        self, status: int, body: bytes, headers: dict[str, str] | None = None, sent: bytes | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body if sent is None else sent)
        if sent is not None:  # the connection breaks in the middle of the file
            self.close_connection = True


def _entry(name: str, content: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "path": name,
        "size": len(content),
        "oid": blob_id(content),
        "blobId": blob_id(content),
    }
    if len(content) >= LFS_FROM:
        about = {"size": len(content), "pointerSize": 134}
        entry["lfs"] = {**about, "oid": sha256(content), "sha256": sha256(content)}
    return entry


@contextmanager
def served() -> Iterator[FakeHub]:
    """A hub that answers until the block ends."""
    hub = FakeHub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def point_client_at(hub: FakeHub, cache: str, patch: pytest.MonkeyPatch) -> None:
    """Let this process's hub client ask the loopback hub, with a cache of its own and no token."""
    from huggingface_hub import constants

    patch.setattr(constants, "ENDPOINT", hub.url)
    patch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    patch.setattr(constants, "HF_HUB_CACHE", cache)
    patch.setattr(constants, "HF_HUB_DISABLE_XET", True)  # the loopback hub speaks Git LFS only
    patch.setattr(constants, "HF_HUB_OFFLINE", False)
    patch.setattr(constants, "HF_TOKEN_PATH", f"{cache}/no-token")
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "POLYTASK_OFFLINE", "HF_HUB_OFFLINE"):
        patch.delenv(name, raising=False)
    patch.setattr(time, "sleep", lambda seconds: None)  # what it waits between two tries
