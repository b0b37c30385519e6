"""The hub's client against a hub on the loopback interface: names, revisions, tokens, faults and offline."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_hub import TOKEN, FakeHub, point_client_at, served

from polytask.hub import (
    HubError,
    HubFailure,
    HubName,
    fetch_snapshot,
    list_files,
    parse_name,
    push_folder,
)

BIG = bytes(range(256)) * 40
FILES = {"config.json": b"{}", "model.safetensors": BIG, "README.md": b"# hello", "deep/a.bin": BIG[:600]}
NAME = HubName("owner/name")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with served() as found:
        point_client_at(found, str(tmp_path / "hub-cache"), monkeypatch)
        yield found


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("owner/name", HubName("owner/name")),
        ("owner/name@v1.0", HubName("owner/name", "v1.0")),
        ("hub:owner/name@refs/convert/parquet", HubName("owner/name", "refs/convert/parquet")),
        ("name", None),
        ("a/b/c", None),
        ("owner/name@", None),
        ("../name", None),
    ],
)
def test_a_name_is_owner_name_and_maybe_a_revision(text: str, name: HubName | None) -> None:
    assert parse_name(text) == name


def test_only_the_asked_for_files_are_fetched_and_only_once(hub: FakeHub) -> None:
    hub.add("models/owner/name", FILES)
    folder = fetch_snapshot(NAME, ["*.json", "model.safetensors"])
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == [
        "config.json",
        "model.safetensors",
    ]
    assert (folder / "model.safetensors").read_bytes() == BIG
    hub.asked.clear()
    assert fetch_snapshot(NAME, ["*.json", "model.safetensors"]) == folder
    assert not any("/cdn/" in request for request in hub.asked)


def test_a_revision_is_a_branch_or_a_commit(hub: FakeHub) -> None:
    first = hub.add("models/owner/name", {"config.json": b"1"})
    hub.repositories["models/owner/name"].commit({"config.json": b"2"}, "main")
    hub.repositories["models/owner/name"].commit({"config.json": b"3"}, "other")
    for revision, content in ((None, b"2"), (first, b"1"), ("other", b"3")):
        folder = fetch_snapshot(HubName("owner/name", revision), ["*"])
        assert (folder / "config.json").read_bytes() == content
    with pytest.raises(HubError, match=r"^owner/name@none: the model owner/name has no revision 'none'.$"):
        fetch_snapshot(HubName("owner/name", "none"), ["*"])


def test_files_are_listed_with_the_commit_and_the_checksums_of_large_ones(hub: FakeHub) -> None:
    from fake_hub import sha256

    commit = hub.add("datasets/owner/name", FILES)
    found, files = list_files(NAME, "dataset")
    assert found == commit
    assert {file.path: file.sha256 for file in files} == {
        "config.json": None,
        "model.safetensors": sha256(BIG),
        "README.md": None,
        "deep/a.bin": sha256(BIG[:600]),
    }


def test_a_broken_transfer_is_continued_where_it_ended(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1024)
    hub.add("models/owner/name", FILES)
    hub.faults.append(("GET /cdn/", "cut"))
    folder = fetch_snapshot(NAME, ["model.safetensors"])
    assert (folder / "model.safetensors").read_bytes() == BIG
    assert hub.ranges == [f"bytes={len(BIG) // 2}-"]


@pytest.mark.parametrize("place", ["GET /api/models", "HEAD /owner", "GET /cdn/"])
@pytest.mark.parametrize("fault", ["429", "500"])
def test_a_hub_that_is_busy_for_a_moment_is_asked_again(hub: FakeHub, place: str, fault: str) -> None:
    hub.add("models/owner/name", FILES)
    hub.faults.append((place, fault))  # type: ignore[arg-type]
    folder = fetch_snapshot(NAME, ["*"])
    assert hub.faults == []
    assert (folder / "model.safetensors").read_bytes() == BIG


def test_a_hub_that_stays_busy_is_told_in_one_sentence(hub: FakeHub) -> None:
    hub.add("models/owner/name", FILES)
    hub.faults.extend([("/api/models", "429")] * 50)
    with pytest.raises(HubFailure, match="too many requests") as caught:
        list_files(NAME, "model")
    assert "\n" not in str(caught.value)


def test_a_name_that_is_not_there_and_one_that_is_private_give_the_same_sentence(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("models/owner/secret", FILES, private=True)
    for name in ("owner/none", "owner/secret"):
        with pytest.raises(
            HubError, match=f"^{name}: the hub has no public model of this name; .* set HF_TOKEN.$"
        ):
            fetch_snapshot(HubName(name), ["*"])
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert (fetch_snapshot(HubName("owner/secret"), ["*"]) / "config.json").exists()
    with pytest.raises(HubError, match="the owner of HF_TOKEN"):
        fetch_snapshot(HubName("owner/none"), ["*"])


def test_a_wrong_token_and_a_gated_repository_are_told(hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("models/owner/name", FILES)
    hub.add("models/owner/gated", FILES, gated=True)
    with pytest.raises(HubError, match=r"access on request only: .* set HF_TOKEN"):
        fetch_snapshot(HubName("owner/gated"), ["*"])
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(HubError, match="did not accept the token"):
        list_files(NAME, "model")


@pytest.mark.parametrize("variable", ["POLYTASK_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_nothing_is_asked_and_the_cache_is_enough(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    hub.add("models/owner/name", FILES)
    folder = fetch_snapshot(NAME, ["*.json"])
    hub.asked.clear()
    monkeypatch.setenv(variable, "1")
    assert fetch_snapshot(NAME, ["*.json"]) == folder
    for name in (HubName("owner/other"), HubName("owner/name", "other")):
        with pytest.raises(
            HubError, match=f"^{name} is not in the cache, or not all of it, and {variable} is set.$"
        ):
            fetch_snapshot(name, ["*.json"])
    with pytest.raises(HubError, match=f"{variable} is set"):
        list_files(NAME, "model")
    with pytest.raises(HubError, match=f"cannot be pushed: {variable} is set"):
        push_folder(NAME, folder, [], private=False, message="m")
    assert hub.asked == []


def test_a_hub_that_is_gone_is_a_failure_unless_all_is_cached(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("models/owner/name", FILES)
    folder = fetch_snapshot(NAME, ["*"])
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert fetch_snapshot(NAME, ["*"]) == folder
    with pytest.raises(HubFailure, match=r"the hub \(http://127.0.0.1:9\) could not be reached"):
        fetch_snapshot(HubName("owner/other"), ["*"])


@pytest.mark.filterwarnings("ignore:Use 'content")  # of the client towards its HTTP library
def test_what_is_pushed_is_one_commit_with_small_and_large_files(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in {"config.json": b"{}", "model.safetensors": BIG, "notes.txt": b"mine"}.items():
        (tmp_path / name).write_bytes(content)
    files = ["config.json", "model.safetensors"]
    with pytest.raises(HubError, match="cannot be pushed without a token: set HF_TOKEN"):
        push_folder(NAME, tmp_path, files, private=True, message="m")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.faults.extend([("/preupload/", "429"), ("PUT /upload/", "500")])
    address = push_folder(NAME, tmp_path, files, private=True, message="m")
    repository = hub.repositories["models/owner/name"]
    assert repository.private
    assert repository.commits[repository.branches["main"]] == {"config.json": b"{}", "model.safetensors": BIG}
    assert address.endswith(repository.branches["main"])
    push_folder(HubName("owner/name", "v2"), tmp_path, ["config.json"], private=True, message="again")
    assert set(repository.branches) == {"main", "v2"}
    with pytest.raises(HubError, match="may not write"):
        push_folder(HubName("others/name"), tmp_path, files, private=False, message="m")
