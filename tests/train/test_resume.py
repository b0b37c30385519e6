"""A run that was stopped, killed or damaged goes on to the very weights it would have reached anyway."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from observed import Event, assert_same_run, observe, read_events, stop_at
from tiny_project import load_recipe

from polytask import api
from polytask.errors import UserError
from polytask.recipe import Recipe
from polytask.train.state import TrainingStopped

LONG = ("phases.0.epochs=3", "phases.0.steps_per_epoch=25")
TWO_PHASES = ("phases.0.epochs=1", "phases.1.epochs=2", "phases.1.steps_per_epoch=4", "phases.1.batch_size=5")


@pytest.fixture
def whole(tiny: Path, one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The uninterrupted run of a recipe with some changes."""

    def run(*changes: str) -> Path:
        folder = tmp_path_factory.getbasetemp() / f"whole-{abs(hash(changes))}"
        if not folder.exists():
            api.train(load_recipe(tiny, *changes), folder)
        return folder

    return run


def stop(recipe: Recipe, run: Path, wanted: Callable[[Event], bool], *, resume: bool = False) -> None:
    with pytest.raises(TrainingStopped, match="--resume"):
        api.train(recipe, run, resume=resume, listener=stop_at(wanted))


def at_update(number: int) -> Callable[[Event], bool]:
    return lambda event: event["event"] == "update" and event["update"] == number


def test_stopped_twice_in_mid_epoch_and_resumed_is_uninterrupted_bit_for_bit(
    tiny: Path, whole: Callable[..., Path], tmp_path: Path
) -> None:
    recipe, run = load_recipe(tiny, *LONG), tmp_path / "run"
    stop(recipe, run, at_update(10))
    stop(recipe, run, at_update(40), resume=True)
    api.train(recipe, run, resume=True)
    assert_same_run(run, whole(*LONG))
    updates = [event["update"] for event in read_events(run) if event["event"] == "update"]
    assert updates == [10, 20, 25, 30, 40, 50, 60, 70, 75]


def test_stopped_between_two_phases_and_resumed_is_uninterrupted_bit_for_bit(
    tiny: Path, whole: Callable[..., Path], tmp_path: Path
) -> None:
    recipe, run = load_recipe(tiny, *TWO_PHASES), tmp_path / "run"
    stop(recipe, run, lambda event: event["event"] == "checkpoint")
    api.train(recipe, run, resume=True)
    assert_same_run(run, whole(*TWO_PHASES))


def test_a_stopped_run_holds_a_model_that_answers_and_a_report(
    tiny: Path, one_thread: None, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    stop(load_recipe(tiny, *LONG), run, at_update(10))
    (answer,) = api.load(run).predict("mood", ["the film is good"])
    assert answer["label"] in ("negative", "positive")
    assert (run / "report.html").stat().st_size > 1000
    assert read_events(run)[-1] == {"event": "stopped", "update": 10}
    assert not list(run.rglob("*.tmp"))


def test_a_damaged_newest_checkpoint_falls_back_with_a_message(
    tiny: Path, whole: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, run = load_recipe(tiny, *LONG), tmp_path / "run"
    stop(recipe, run, at_update(40))
    newest = run / "checkpoints" / "update-00000040.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1] + b"\x00\x01")
    seen = observe(recipe, run, monkeypatch, resume=True)
    (warning,) = seen.named("warning")
    assert "update-00000040.safetensors is damaged" in warning["message"]
    assert_same_run(run, whole(*LONG))


def test_resuming_a_finished_run_changes_nothing(
    tiny: Path, whole: Callable[..., Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    api.train(load_recipe(tiny, *LONG), run)
    api.train(load_recipe(tiny, *LONG), run, resume=True)
    assert_same_run(run, whole(*LONG))


def test_a_run_stopped_before_its_first_checkpoint_begins_anew_with_a_clean_log(
    tiny: Path, whole: Callable[..., Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    stop(load_recipe(tiny, *LONG), run, at_update(10))
    for path in (run / "checkpoints").iterdir():
        path.unlink()
    api.train(load_recipe(tiny, *LONG), run, resume=True)
    assert_same_run(run, whole(*LONG))
    assert [event["event"] for event in read_events(run)].count("phase") == 1


def test_notes_stand_in_the_log_once(project: Path) -> None:
    path = project / "mood-dev.tsv"
    path.write_text(path.read_text() + (project / "mood-train.tsv").read_text().split("\n", 1)[1])
    run = project / "run"
    stop(load_recipe(project, *LONG), run, at_update(10))
    api.train(load_recipe(project, *LONG), run, resume=True)
    notes = [event["message"] for event in read_events(run) if event["event"] == "note"]
    assert len(notes) == len(set(notes)) > 0


def test_a_killed_process_goes_on_to_the_same_weights(
    tiny: Path, whole: Callable[..., Path], shared_cache: Path, tmp_path: Path
) -> None:
    changes = ("phases.0.epochs=12", "phases.0.steps_per_epoch=20")
    run = tmp_path / "run"
    command = [sys.executable, "-m", "polytask", "train", str(tiny / "tiny.toml"), "--out", str(run)]
    for change in changes:
        command += ["--set", change]
    environment = {**os.environ, "POLYTASK_CACHE": str(shared_cache)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("epoch 2:"):
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    assert "done" not in [event["event"] for event in read_events(run)]
    api.train(load_recipe(tiny, *changes), run, resume=True)
    assert_same_run(run, whole(*changes))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("seed=3", "seed was 1 and is 3"),
        ("phases.0.lr=0.5", r"phases\.0\.lr was 0\.001 and is 0\.5"),
        ("phases.1.lr=0.5", r"phases\.1\.lr was 'not set' and is 0\.5"),
    ],
)
def test_a_changed_recipe_is_not_resumed_and_every_change_is_named(
    tiny: Path, trained: Path, one_thread: None, change: str, said: str
) -> None:
    before = (trained / "recipe.toml").read_bytes()
    with pytest.raises(UserError, match=said):
        api.train(load_recipe(tiny, change), trained, resume=True)
    assert (trained / "recipe.toml").read_bytes() == before


@pytest.mark.parametrize("content", [b"\xff", b"seed = ", b""])
def test_a_damaged_recipe_in_the_run_folder_is_refused(
    tiny: Path, one_thread: None, tmp_path: Path, content: bytes
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.toml").write_bytes(content)
    with pytest.raises(UserError, match="--resume"):
        api.train(load_recipe(tiny), run, resume=True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("max_length=33", "max_length should be at most 32"),
        ('phases.1.train=["encoder.nope.*"]', "matches none"),
        ("tasks.mood.text=words", "has no column 'words'"),
    ],
)
def test_what_is_refused_leaves_no_folder_behind(
    tiny: Path, one_thread: None, tmp_path: Path, change: str, said: str
) -> None:
    with pytest.raises(UserError, match=said):
        api.train(load_recipe(tiny, change), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "changes",
    [
        ("phases.0.loss_weights=uncertainty", "phases.0.average=ema"),
        ("phases.0.loss_weights=dwa", 'phases.0.average={kind="mean",start=0.4}', "phases.0.unfreeze=0.8"),
        ("phases.0.loss_weights=famo", "phases.0.sampler=joint", "phases.0.smart=true"),
        ("phases.0.loss_weights=initial", 'phases.0.sampler={kind="annealed",per="step"}', "adapter=pal"),
        ("phases.0.combine=vaccine", 'phases.0.sampler={kind="compromise",draws=4}', "phases.0.rdrop=0.5"),
    ],
    ids=lambda changes: changes[0].partition("=")[2],
)
def test_whatever_a_phase_keeps_between_updates_is_in_the_checkpoint(
    tiny: Path, whole: Callable[..., Path], tmp_path: Path, changes: tuple[str, ...]
) -> None:
    every = ("phases.0.epochs=3", "phases.0.steps_per_epoch=6", *changes)
    recipe, run = load_recipe(tiny, *every), tmp_path / "run"
    stop(recipe, run, lambda event: event["event"] == "checkpoint")  # after an epoch, then within one
    stop(recipe, run, at_update(10), resume=True)
    api.train(recipe, run, resume=True)
    assert_same_run(run, whole(*every))
