"""Recipes by seeds: what is trained, what is not trained again, and what is written of it."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tiny_project import load_recipe, write_project

import polytask as pt
from polytask.experiments.compare import Settings, run_comparison
from polytask.experiments.plan import load_candidates, plan_runs
from polytask.recipe import Recipe

PROGRAM = [sys.executable, "-m", "polytask", "compare"]
SHORT = ("phases.0.epochs=1", "phases.0.steps_per_epoch=4")


def write_pair(folder: Path) -> list[Path]:
    """Two recipes of the tiny project that differ in their rate."""
    paths = [folder / "slow.toml", folder / "fast.toml"]
    for path, lr in zip(paths, ("1e-3", "1e-2"), strict=True):
        path.write_text(load_recipe(folder, *SHORT, f"phases.0.lr={lr}").to_toml(), encoding="utf-8")
    return paths


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Path:
    """The tiny project with `out/`, two recipes by two seeds through the command line; to be copied."""
    folder = tmp_path_factory.mktemp("compare")
    write_project(folder)
    recipes = [path.name for path in write_pair(folder)]
    command = [*PROGRAM, *recipes, "--seeds", "2", "--jobs", "2", "--out", "out", "--json"]
    environment = {**os.environ, "POLYTASK_CACHE": str(shared_cache), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == json.loads((folder / "out" / "comparison.json").read_text())
    assert b"4/4 done" in ran.stderr
    return folder


@pytest.fixture
def project(finished: Path, tmp_path: Path, one_thread: None) -> Path:
    """A copy, to be changed."""
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def left(project: Path, *recipes: Recipe | Path, any_code: bool = False) -> list[dict[str, Any]]:
    """What a comparison would still train: with no minutes to spend it begins nothing."""
    settings = Settings(seeds=2, minutes=0.0, any_code=any_code)
    document = run_comparison(recipes, project / "out", settings, lambda event: None)
    assert document["failed"] == {}
    return list(document["left"])


def test_means_are_those_of_the_runs_own_scores(finished: Path) -> None:
    document = json.loads((finished / "out" / "comparison.json").read_text())
    assert list(document["recipes"]) == ["slow", "fast"]
    for recipe in document["recipes"].values():
        scores = [
            json.loads((finished / "out" / run["folder"] / "scores.json").read_text())
            for run in recipe["runs"]
        ]
        assert [run["seed"] for run in recipe["runs"]] == [1, 2]
        assert [run["mean"] for run in recipe["runs"]] == [each["mean"] for each in scores]
        for task in ("mood", "alike", "tags"):
            one, other = (each["tasks"][task]["score"] for each in scores)
            assert recipe["tasks"][task]["mean"] == pytest.approx((one + other) / 2, abs=1e-6)
            assert recipe["tasks"][task]["standard_error"] == pytest.approx(abs(one - other) / 2, abs=1e-6)
        assert recipe["parameters"] > 0
        assert recipe["tokens"] > 0


def test_every_other_recipe_is_tested_on_each_task_and_on_the_mean(finished: Path) -> None:
    document = json.loads((finished / "out" / "comparison.json").read_text())
    slow, fast = (document["recipes"][name] for name in ("slow", "fast"))
    tests = {test["task"]: test for test in document["tests"]}
    assert list(tests) == ["mood", "alike", "tags", "mean"]
    for task in ("mood", "alike", "tags"):
        assert tests[task]["gain"] == pytest.approx(
            fast["tasks"][task]["mean"] - slow["tasks"][task]["mean"], abs=2e-6
        )
    assert {task: test["exact"]["test"] for task, test in tests.items() if "exact" in test} == {
        "mood": "mcnemar",
        "alike": "williams",
    }
    for test in tests.values():
        assert test["low"] <= test["gain"] <= test["high"]
        assert 0 < test["p"] <= test["p_holm"] <= 1


def test_the_same_is_written_in_every_form(finished: Path) -> None:
    out = finished / "out"
    document = json.loads((out / "comparison.json").read_text())
    rows = list(csv.DictReader((out / "comparison.csv").read_text().splitlines()))
    assert [(row["recipe"], row["task"]) for row in rows][:4] == [
        ("slow", "mood"),
        ("slow", "alike"),
        ("slow", "tags"),
        ("slow", "mean"),
    ]
    assert float(rows[5]["mean"]) == document["recipes"]["fast"]["tasks"]["alike"]["mean"]
    assert float(rows[5]["p"]) == next(test["p"] for test in document["tests"] if test["task"] == "alike")
    mood = f"{document['recipes']['slow']['tasks']['mood']['mean']:.4f}"
    for ending in ("md", "tex", "html"):
        text = (out / f"comparison.{ending}").read_text(encoding="utf-8")
        assert mood in text
        assert "fast" in text
    page = (out / "comparison.html").read_text(encoding="utf-8")
    charts = json.loads(re.findall(r'id="charts">(.*?)</script>', page, re.DOTALL)[0])["charts"]
    said = [chart["description"] for chart in charts]
    assert said.count("Mean dev score of each recipe with its standard error.") == 4
    assert said.count("Share of the draws of each task in each epoch.") == 2
    assert "Mean dev score over training time." in said
    assert "Parameters of each recipe's model against its mean score." in said


def test_report_writes_the_tables_and_the_page_again(project: Path) -> None:
    out = project / "out"
    forms = {path: path.read_bytes() for path in out.glob("comparison.*")}
    for path in forms:
        if path.suffix != ".json":
            path.unlink()
    command = [sys.executable, "-m", "polytask", "report", "out"]
    ran = subprocess.run(command, cwd=project, capture_output=True, check=False, text=True)
    assert ran.stdout.strip() == "out/comparison.html"
    assert {path: path.read_bytes() for path in out.glob("comparison.*")} == forms
    (out / "comparison.json").write_text("{}")
    ran = subprocess.run(command, cwd=project, capture_output=True, check=False, text=True)
    assert ran.returncode == 2
    assert "comparison.json is damaged" in ran.stderr


def test_finished_runs_are_not_done_again_and_no_checkpoints_are_kept(project: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (project / "out" / "runs").rglob("*")}
    assert left(project, project / "slow.toml", project / "fast.toml") == []
    assert {path: path.stat().st_mtime_ns for path in (project / "out" / "runs").rglob("*")} == before
    assert list((project / "out").rglob("checkpoints")) == []


def test_only_what_changed_is_trained_anew(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, fast = project / "slow.toml", project / "fast.toml"
    written = fast.read_text()
    fast.write_text(written.replace("batch_size = 8", "batch_size = 4"))
    anew = [{"recipe": "fast", "seed": 1}, {"recipe": "fast", "seed": 2}]
    assert left(project, slow, fast) == anew
    fast.write_text(written + "# a comment changes nothing\n")
    assert left(project, slow, fast) == []
    monkeypatch.setattr("polytask.experiments.identity.code_digest", lambda: "other")
    assert len(left(project, slow, fast)) == 4
    assert left(project, slow, fast, any_code=True) == []
    data = project / "mood-train.tsv"
    data.write_text(data.read_text().replace("good", "fine"))
    assert len(left(project, slow, fast, any_code=True)) == 4


def test_a_change_of_the_encoders_weights_is_a_change_of_data(project: Path) -> None:
    candidates = load_candidates([project / "slow.toml"])
    before = plan_runs(candidates, [1], project / "out")[0]
    (project / "encoder" / "vocab.txt").write_text("[PAD]\n")
    after = plan_runs(candidates, [1], project / "out")[0]
    assert before.identity["recipe"] == after.identity["recipe"]
    assert before.identity["data"] != after.identity["data"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("train_on_dev=true",), "odd: train_on_dev is true"),
        (("tasks.mood.metric=f1",), "odd cannot be compared with slow: tasks.mood has other metric"),
        (("tasks.mood.dev=mood-train.tsv",), "tasks.mood has other dev rows"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_exit_code_two(
    project: Path, shared_cache: Path, change: tuple[str, ...], message: str
) -> None:
    (project / "odd.toml").write_text(load_recipe(project, *change).to_toml(), encoding="utf-8")
    with pytest.raises(pt.UserError, match=message):
        pt.compare([project / "slow.toml", project / "odd.toml"], project / "out")
    if change[0] == "train_on_dev=true":
        ran = subprocess.run(
            [*PROGRAM, "slow.toml", "odd.toml", "--out", "out"], cwd=project, capture_output=True, check=False
        )
        assert ran.returncode == 2
        assert message in ran.stderr.decode()


def test_mistakes_in_the_request_are_named(project: Path) -> None:
    slow = project / "slow.toml"
    with pytest.raises(pt.UserError, match="Two recipes are called 'slow'"):
        pt.compare([slow, slow], project / "out")
    with pytest.raises(pt.UserError, match="--baseline should be one of slow, fast"):
        pt.compare([slow, project / "fast.toml"], project / "out", baseline="slo")
    with pytest.raises(pt.UserError, match="seeds should be at least 1"):
        pt.compare([slow], project / "out", seeds=0)
    one = project / "one.toml"
    recipe = load_recipe(project)
    one.write_text(recipe.changed(tasks={"mood": recipe.tasks["mood"]}).to_toml(), encoding="utf-8")
    with pytest.raises(pt.UserError, match="it has scores of mood, and slow of mood, alike, tags"):
        pt.compare([slow, one], project / "out")


def test_a_crash_fails_one_run_and_ctrl_c_leaves_what_goes_on(
    project: Path, shared_cache: Path, tmp_path: Path
) -> None:
    long = load_recipe(project, "phases.0.epochs=3000", "checkpoint_seconds=0.5")
    (project / "long.toml").write_text(long.to_toml(), encoding="utf-8")
    broken = load_recipe(project, "max_length=64", *SHORT)  # more than its encoder takes
    (project / "broken.toml").write_text(broken.to_toml(), encoding="utf-8")
    environment = {**os.environ, "POLYTASK_CACHE": str(shared_cache), "OMP_NUM_THREADS": "1"}
    command = [*PROGRAM, "slow.toml", "broken.toml", "long.toml", "--seeds", "1", "--out", "out"]
    with subprocess.Popen(
        command, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("long seed 1: begins"):
                break
        events = project / "out" / "runs" / "long"
        until = time.monotonic() + 60
        while time.monotonic() < until and not any(
            "evaluate" in p.read_text() for p in events.glob("*/events.jsonl")
        ):
            time.sleep(0.1)
        other = subprocess.run(command, cwd=project, env=environment, capture_output=True, check=False)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert other.returncode == 2
    assert b"another comparison is at work in this folder" in other.stderr
    assert process.returncode == 1
    assert any(line.startswith("broken seed 1 failed:") for line in said), said
    assert rest.splitlines()[-1] == "polytask: Stopped. The same command goes on."
    run = next(path for path in events.iterdir() if path.is_dir())
    assert json.loads((run / "events.jsonl").read_text().splitlines()[-1])["event"] == "stopped"
    assert list((run / "checkpoints").iterdir())
    document = json.loads((project / "out" / "comparison.json").read_text())
    assert document["left"] == [{"recipe": "long", "seed": 1}]
    assert list(document["failed"]) == ["broken seed 1"]
    assert list(document["recipes"]) == ["slow"]
