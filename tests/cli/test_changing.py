"""Tasks added, removed and moved over from the command line, in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

NEW = """
precision = "fp32"
threads = 1
[tasks.mood]
train = "mood-train.tsv"
dev = "mood-dev.tsv"
[[phases]]
epochs = 1
steps_per_epoch = 2
batch_size = 8
"""


def polytask(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "polytask", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))


@pytest.fixture
def base(project: Path) -> Path:
    """A run of one task, whose data is then gone."""
    from polytask import api
    from polytask.recipe import Recipe

    text = (project / "tiny.toml").read_text(encoding="utf-8")
    recipe = Recipe.load(project / "tiny.toml", ["phases.0.epochs=1"])
    assert "[tasks.tags]" in text
    api.train(recipe.changed(tasks={"tags": recipe.tasks["tags"]}), project / "base")
    (project / "tags-train.tsv").unlink()
    (project / "new.toml").write_text(NEW, encoding="utf-8")
    return project / "base"


def test_add_task_proves_what_it_says_and_remove_task_undoes_it(project: Path, base: Path) -> None:
    out = project / "more"
    added = polytask("add-task", base, project / "new.toml", "--out", out)
    assert added.returncode == 0, added.stderr
    assert "tags" in added.stdout
    assert "50 remembered rows  bit for bit as before" in added.stdout
    removed = polytask("remove-task", out, "mood", "--out", project / "less", "--json")
    assert removed.returncode == 0, removed.stderr
    less = Path(json.loads(removed.stdout)["model"])
    joined = polytask("adopt", less, out, "--task", "mood", "--out", project / "joined")
    assert joined.returncode == 0, joined.stderr
    weights = [path / "model.safetensors" for path in (out / "model", project / "joined")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_what_is_wrong_is_said_in_one_line(project: Path, base: Path) -> None:
    failed = polytask("add-task", base, project / "new.toml", "--mode", "gems", "--out", project / "more")
    assert failed.returncode == 2
    said = failed.stderr.splitlines()[-1]
    assert said.startswith("polytask: mode should be one of adapter")
    assert not (project / "more").exists()
