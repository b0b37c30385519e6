"""TensorBoard, MLflow and Weights & Biases get what `events.jsonl` has, and none can end a training."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tiny_project import load_recipe

from polytask import api
from polytask.errors import RecipeError, UserError
from polytask.train.tracking import follow
from polytask.train.tracking.sink import Followed, Sink, flat, measured

SHORT = ("phases.0.epochs=1", "phases.0.steps_per_epoch=3")


def events(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]


def expected(run: Path) -> dict[str, list[tuple[int, float]]]:
    """What a tracker should have, from the events themselves."""
    found: dict[str, list[tuple[int, float]]] = {}
    for event in events(run):
        for name, value in measured(event).items():
            found.setdefault(name, []).append((event["update"], value))
    return found


def train(project: Path, *changes: str, **environment: str) -> Path:
    """A training in a process of its own: the packages start threads and change what is global."""
    run = project / "run"
    arguments = [part for change in (*SHORT, *changes) for part in ("--set", change)]
    done = subprocess.run(
        [sys.executable, "-m", "polytask", "train", "tiny.toml", "--out", str(run), "--json", *arguments],
        cwd=project,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "left out" not in done.stderr
    assert json.loads(done.stdout) == json.loads((run / "scores.json").read_text())  # nothing else is printed
    return run


def test_tensorboard_reads_back_every_number(project: Path) -> None:
    run = train(project, "tracking=tensorboard")
    code = (
        "import sys, json\n"
        "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator\n"
        "read = EventAccumulator(sys.argv[1]); read.Reload()\n"
        "tags = read.Tags()['scalars']\n"
        "print(json.dumps({tag: [(e.step, e.value) for e in read.Scalars(tag)] for tag in tags}))"
    )
    command = [sys.executable, "-c", code, str(run / "tensorboard")]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    right = expected(run)
    assert set(found) == set(right) > {"lr", "dev/mean", "dev/mood"}
    for name, values in right.items():
        assert [step for step, _ in found[name]] == [step for step, _ in values]
        assert [value for _, value in found[name]] == pytest.approx([value for _, value in values], rel=1e-5)


@pytest.mark.skipif(find_spec("mlflow") is None, reason="mlflow is not installed")
def test_mlflow_keeps_every_number_and_the_recipe_in_its_file_store(project: Path) -> None:
    store = {"MLFLOW_TRACKING_URI": f"file:{project / 'mlruns'}", "MLFLOW_ALLOW_FILE_STORE": "true"}
    run = train(project, "tracking=mlflow", MLFLOW_EXPERIMENT_NAME="tiny", **store)
    code = (
        "import sys, json; from mlflow import MlflowClient\n"
        "client, key = MlflowClient(), sys.argv[1]; run = client.get_run(key)\n"
        "steps = lambda name: [(item.step, item.value) for item in client.get_metric_history(key, name)]\n"
        "history = {name: steps(name) for name in run.data.metrics}\n"
        "name = client.get_experiment(run.info.experiment_id).name\n"
        "print(json.dumps([history, run.data.params, run.info.status, name]))"
    )
    key = json.loads((run / "tracking.json").read_text())["mlflow"]
    command = [sys.executable, "-c", code, key]
    read = subprocess.run(command, env={**os.environ, **store}, capture_output=True, text=True, check=True)
    history, settings, status, name = json.loads(read.stdout.splitlines()[-1])
    assert {key: [tuple(item) for item in values] for key, values in history.items()} == expected(run)
    assert (settings["phases.0.batch_size"], settings["encoder"]) == ("8", "encoder")
    assert (status, name) == ("FINISHED", "tiny")


@pytest.mark.skipif(find_spec("wandb") is None, reason="wandb is not installed")
def test_wandb_keeps_every_name_in_its_offline_file(project: Path) -> None:
    run = train(project, "tracking=wandb", WANDB_MODE="offline", WANDB_PROJECT="tiny")
    key = json.loads((run / "tracking.json").read_text())["wandb"]
    file = next(run.glob(f"wandb/offline-run-*-{key}/run-{key}.wandb"))
    content = file.read_bytes()
    for name in expected(run):
        assert name.encode() in content


class _Recorder(Sink):
    """A sink that breaks down at one update, as a server may that goes away."""

    def __init__(self, run: Followed, breaks_at: int) -> None:
        if breaks_at < 0:
            raise ConnectionError("no such server\nand a long story")
        self.key = "this-run"
        self.breaks_at = breaks_at

    def write(self, values: Mapping[str, float], update: int) -> None:
        if update >= self.breaks_at:
            raise OSError("disk full")

    def close(self, failed: bool) -> None:
        raise AssertionError("a sink that broke down is not asked again")


@pytest.mark.parametrize(("breaks_at", "reason"), [(-1, "no such server"), (2, "disk full")])
def test_a_sink_that_fails_is_named_once_and_training_goes_on(
    project: Path, monkeypatch: pytest.MonkeyPatch, breaks_at: int, reason: str
) -> None:
    monkeypatch.setitem(follow.SINKS, "tensorboard", lambda run: _Recorder(run, breaks_at))
    heard: list[dict[str, Any]] = []
    api.train(load_recipe(project, *SHORT, "tracking=tensorboard"), project / "run", listener=heard.append)
    warnings = [event["message"] for event in heard if event["event"] == "warning"]
    assert warnings == [
        f"tensorboard failed and is left out from here on ({reason}); events.jsonl has everything."
    ]
    assert events(project / "run")[-1]["event"] == "done"


def test_a_tracker_that_is_not_installed_is_told_before_anything_is_trained(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "find_spec", lambda name: None)
    with pytest.raises(UserError) as caught:
        api.train(load_recipe(project, 'tracking=["wandb", "mlflow"]'), project / "run")
    assert str(caught.value) == (
        "tracking: wandb, mlflow cannot be used: install with pip install wandb mlflow."
    )
    assert not (project / "run").exists()
    with pytest.raises(
        RecipeError, match=r"^tracking\.0 should be one of tensorboard, mlflow, wandb\. Found 'wanb'"
    ):
        load_recipe(project, "tracking=wanb")


def test_a_run_may_be_resumed_with_other_trackers(project: Path) -> None:
    run = project / "run"
    api.train(load_recipe(project, *SHORT), run)
    api.train(load_recipe(project, *SHORT, "tracking=tensorboard"), run, resume=True)
    assert (run / "tensorboard").is_dir()


def test_settings_are_flattened_by_their_keys_in_a_recipe() -> None:
    nested = {"seed": 1, "phases": [{"lr": 0.1}, {"lr": 0.2}], "tasks": {"a": {"text": ["x", "y"]}}}
    assert flat(nested) == {
        "seed": "1",
        "phases.0.lr": "0.1",
        "phases.1.lr": "0.2",
        "tasks.a.text": "['x', 'y']",
    }
