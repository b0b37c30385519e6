"""A model that is pushed to a hub and pulled back answers as it did; what goes wrong is told."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_hub import TOKEN, FakeHub, point_client_at, served
from tiny_project import load_recipe

from polytask import api
from polytask.errors import ModelError, UserError
from polytask.hub import HubError

SHORT = ("phases.0.epochs=1", "phases.0.steps_per_epoch=4")
TEXTS = ["the film is good", "the song is awful"]
CLIENT = pytest.mark.filterwarnings("ignore:Use 'content")  # the hub's client towards its HTTP library


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> Iterator[FakeHub]:
    with served() as found:
        point_client_at(found, str(tmp_path / "hub-cache"), monkeypatch)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield found


@CLIENT
def test_a_pushed_model_is_pulled_back_and_answers_the_same(
    hub: FakeHub, trained: Path, tmp_path: Path
) -> None:
    hub.faults.extend([("/preupload/", "429"), ("GET /cdn/", "cut"), ("HEAD /owner/name", "500")])
    address = api.push(trained, "owner/name", private=True)
    commit = address.rpartition("/")[2]
    repository = hub.repositories["models/owner/name"]
    assert set(repository.commits[commit]) == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "README.md",
    }
    folder = api.pull(f"owner/name@{commit}", tmp_path / "back")
    for file in os.listdir(folder):
        assert (folder / file).read_bytes() == (trained / "model" / file).read_bytes()
    right = api.load(trained).predict("mood", TEXTS)
    assert api.load(folder).predict("mood", TEXTS) == right
    assert api.load("hub:owner/name").predict("mood", TEXTS) == right
    assert hub.faults == []
    with pytest.raises(UserError, match="should be a new or an empty folder"):
        api.pull("owner/name", tmp_path / "back")


@CLIENT
def test_a_model_on_the_hub_is_changed_by_a_second_push_and_old_revisions_stay(
    hub: FakeHub, trained: Path, tmp_path: Path
) -> None:
    first = api.push(trained, "owner/name").rpartition("/")[2]
    api.load(trained).save(tmp_path / "small", ["mood"])
    api.push(tmp_path / "small", "owner/name", message="one task only")
    assert list(api.load("hub:owner/name").tasks) == ["mood"]
    assert list(api.load(f"hub:owner/name@{first}").tasks) == ["mood", "alike", "tags"]


def test_what_is_no_model_is_neither_pushed_nor_pulled(hub: FakeHub, trained: Path, tmp_path: Path) -> None:
    hub.add("models/owner/bert", {"config.json": b"{}"})
    with pytest.raises(
        ModelError, match=r"^owner/bert: is not a polytask model; it lacks model.safetensors, token"
    ):
        api.pull("owner/bert")
    with pytest.raises(UserError, match=r"should be owner/name or owner/name@revision. Found 'name'"):
        api.pull("name")
    broken = Path(shutil.copytree(trained / "model", tmp_path / "broken"))
    (broken / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelError, match=r"SHA-256 is not the one in config.json"):
        api.push(broken, "owner/name")
    (broken / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"lacks tokenizer.json"):
        api.push(broken, "owner/name")
    assert "models/owner/name" not in hub.repositories


def test_a_model_that_was_changed_on_the_hub_is_refused(hub: FakeHub, trained: Path) -> None:
    files = {path.name: path.read_bytes() for path in (trained / "model").iterdir()}
    hub.add("models/owner/name", {**files, "model.safetensors": files["model.safetensors"] + b"!"})
    with pytest.raises(
        ModelError, match=r"SHA-256 of its model.safetensors is not the one in its config.json"
    ):
        api.pull("owner/name")


def test_offline_a_pulled_model_loads_and_another_is_told(
    hub: FakeHub, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("models/owner/name", {path.name: path.read_bytes() for path in (trained / "model").iterdir()})
    api.pull("owner/name")
    monkeypatch.setenv("POLYTASK_OFFLINE", "1")
    hub.asked.clear()
    assert api.load("hub:owner/name").tasks
    with pytest.raises(
        HubError, match="owner/other is not in the cache, or not all of it, and POLYTASK_OFFLINE"
    ):
        api.load("hub:owner/other")
    assert hub.asked == []


def test_the_commands_push_and_pull_with_the_usual_variables(trained: Path, tmp_path: Path) -> None:
    with served() as hub:
        environment = {
            **{key: value for key, value in os.environ.items() if "proxy" not in key.lower()},
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_DISABLE_XET": "1",
            "HF_TOKEN": TOKEN,
            "OMP_NUM_THREADS": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }

        def run(*arguments: object, **changes: str) -> "subprocess.CompletedProcess[str]":
            command = [sys.executable, "-m", "polytask", *map(str, arguments)]
            return subprocess.run(
                command,
                env={**environment, **changes},
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )

        pushed = run("push", trained, "owner/name", "--private", "--json")
        assert pushed.returncode == 0, pushed.stderr
        commit = json.loads(pushed.stdout)["commit"].rpartition("/")[2]
        pulled = run("pull", f"owner/name@{commit}", "--out", tmp_path / "back")
        assert (pulled.returncode, pulled.stdout.strip()) == (0, str(tmp_path / "back")), pulled.stderr
        refused = run("pull", "owner/none", HF_TOKEN="")
        assert refused.returncode == 2
        assert refused.stderr.splitlines()[-1].startswith("polytask: owner/none: the hub has no public model")


@CLIENT
def test_encoder_and_sets_come_from_the_hub_and_the_model_goes_there(
    hub: FakeHub, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLYTASK_CACHE", str(tmp_path / "cache"))
    encoder = {path.name: path.read_bytes() for path in (tiny / "encoder").iterdir()}
    commit = hub.add("models/owner/tiny", encoder, private=True)
    for name in ("mood", "alike"):
        files = {f"{split}.tsv": (tiny / f"{name}-{split}.tsv").read_bytes() for split in ("train", "dev")}
        hub.add(f"datasets/owner/{name}", files)
    hub.faults.extend([("GET /cdn/", "cut"), ("/api/models/owner/tiny", "429"), ("/api/datasets", "500")])
    hub.faults.extend([("HEAD /datasets/owner/alike", "429"), ("GET /cdn/", "drop")])
    recipe = load_recipe(
        tiny,
        *SHORT,
        f"encoder=owner/tiny@{commit}",
        "tasks.mood.train=hub:owner/mood",
        "tasks.alike.train=hub:owner/alike",
        "tasks.mood.dev=hub:owner/mood",
        "tasks.alike.dev=hub:owner/alike",
    )
    run = api.train(recipe, tmp_path / "run")
    assert hub.faults == []
    files_run = api.train(load_recipe(tiny, *SHORT), tmp_path / "files")
    assert run.scores["tasks"] == files_run.scores["tasks"]  # the same rows, whence they may come
    address = api.push(run.folder, "owner/result")
    pulled = api.pull(f"owner/result@{address.rpartition('/')[2]}", tmp_path / "back")
    assert api.load(pulled).predict("mood", TEXTS) == api.load(run.folder).predict("mood", TEXTS)
