"""What a run remembers of its tasks, how it holds later phases to it, and that it survives being stopped."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from observed import Event, assert_same_run, observe, stop_at
from tiny_project import load_recipe

from polytask import api
from polytask.data.batches import BatchStream
from polytask.deploy.model import load
from polytask.errors import DataError, RecipeError
from polytask.train.gradients import Combined, GradientEngine
from polytask.train.keeping import balanced_rows, herded_rows, last_rows
from polytask.train.memory import FOLDER, MANIFEST, read_memory
from polytask.train.rehearsal import Rehearsal
from polytask.train.state import TrainingStopped
from polytask.update_choices import MemoryRecipe

NAMES = ("mood", "alike", "tags")


def in_turn(memory: str, *more: str) -> list[str]:
    """Changes that make the tiny recipe train one task after another."""
    changes = ["keep=last"]
    for number, name in enumerate(NAMES):
        lead = f"phases.{number}"
        changes += [f'{lead}.tasks=["{name}"]', f"{lead}.epochs=2", f"{lead}.steps_per_epoch=6"]
        changes += [f"{lead}.batch_size=8", f"{lead}.lr=1e-3", f"{lead}.memory={memory}"]
    return [*changes, *more]


def remembered_lines(run: Path, task: str) -> list[Event]:
    return [json.loads(line) for line in (run / FOLDER / f"{task}.jsonl").read_text("utf-8").splitlines()]


def at_update(number: int) -> Callable[[Event], bool]:
    return lambda event: event.get("update") == number


def files_of(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (run / FOLDER).iterdir()}


@pytest.mark.parametrize("choose", ["balanced", "herding", "random", "ring"])
def test_a_run_keeps_training_rows_of_every_task(
    tiny: Path, one_thread: None, tmp_path: Path, choose: str
) -> None:
    settings = f'{{ kind = "keep", rows = 12, choose = "{choose}" }}'
    api.train(load_recipe(tiny, "phases.0.epochs=1", f"phases.0.memory={settings}"), tmp_path / "run")
    assert set(files_of(tmp_path / "run")) == {MANIFEST, *(f"{name}.jsonl" for name in NAMES)}
    lines = (tiny / "mood-train.tsv").read_text("utf-8").splitlines()
    found = remembered_lines(tmp_path / "run", "mood")
    assert len({row["id"] for row in found}) == 12
    for row in found:
        assert [row["id"], *row["texts"], row["label"]] == lines[row["line"] - 1].split("\t")
    assert {type(row["label"]) for row in remembered_lines(tmp_path / "run", "alike")} == {float}
    assert {type(row["label"]) for row in remembered_lines(tmp_path / "run", "tags")} == {list}
    if choose in ("balanced", "herding"):
        assert Counter(row["label"] for row in found) == {"negative": 6, "positive": 6}


def test_what_was_kept_reads_back_as_the_training_rows_it_is(
    tiny: Path, trained: Path, one_thread: None
) -> None:
    model = load(trained, precision="fp32")
    kept = read_memory(trained, model.tasks, ["mood", "tags"])
    assert len(kept["mood"].rows) == 50  # no more than there are
    table = kept["tags"].table(model.tokenizer)
    assert table.targets is not None
    flags = [tuple(np.array(["good", "film"])[target > 0]) for target in table.targets]
    assert flags == [row.label for row in kept["tags"].rows]


def test_a_ring_of_a_task_that_was_hardly_drawn_is_filled_up(
    tiny: Path, one_thread: None, tmp_path: Path
) -> None:
    changes = ["phases.0.epochs=1", "phases.0.steps_per_epoch=1", "phases.0.sampler=round_robin"]
    changes += ['phases.0.memory={ kind = "keep", rows = 20, choose = "ring" }']
    api.train(load_recipe(tiny, *changes), tmp_path / "run")
    assert {name: len(remembered_lines(tmp_path / "run", name)) for name in NAMES} == dict.fromkeys(NAMES, 20)


def test_none_keeps_nothing(tiny: Path, one_thread: None, tmp_path: Path) -> None:
    api.train(load_recipe(tiny, "phases.0.epochs=1", "phases.0.memory=none"), tmp_path / "run")
    assert not (tmp_path / "run" / FOLDER).exists()


def test_a_balanced_order_is_even_in_every_first_part() -> None:
    classes = np.array([0] * 30 + [1] * 4 + [2] * 9)
    order = balanced_rows(classes, np.random.default_rng(1))
    assert sorted(order) == list(range(43))
    assert Counter(classes[order[:12]]) == {0: 4, 1: 4, 2: 4}
    assert Counter(classes[order[:18]]) == {0: 7, 1: 4, 2: 7}


def test_herding_chooses_what_keeps_the_mean() -> None:
    features = np.random.default_rng(1).normal(size=(200, 8)).astype(np.float32) + 1
    order = herded_rows(features, np.zeros(200, dtype=np.int64), 20)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    assert len(set(order)) == 20
    nearest = np.linalg.norm(unit - unit.mean(axis=0), axis=1).argmin()
    assert order[0] == nearest
    off = [np.linalg.norm(unit[rows].mean(axis=0) - unit.mean(axis=0)) for rows in (order, np.arange(20))]
    assert off[0] < off[1] / 3


def test_a_ring_holds_the_rows_drawn_last() -> None:
    stream = BatchStream("mood", np.arange(50), 8, seed=1)
    drawn = [stream.next() for _ in range(9)]
    wanted = list(dict.fromkeys(np.concatenate(drawn[::-1])[:20].tolist()))
    assert last_rows(stream, 20)[: len(wanted)].tolist() == wanted
    assert last_rows(BatchStream("mood", np.arange(50), 8, seed=1), 20).tolist() == []


def test_an_update_draws_the_batch_in_even_parts(trained: Path, one_thread: None) -> None:
    model = load(trained, precision="fp32")
    kept = read_memory(trained, model.tasks, NAMES)
    tables = {name: item.table(model.tokenizer) for name, item in kept.items()}
    tasks = [item.task for item in kept.values()]

    def draws(kind: str, update: int) -> list[tuple[int, list[int], float]]:
        recipe = MemoryRecipe.model_validate({"kind": kind, "rows": 10, "batch_size": 8})
        found = Rehearsal(recipe, tasks, tables, 32, (1, 0)).draw(update)
        return [(number, rows.tolist(), factor) for number, rows, factor in found]

    assert [len(rows) for _, rows, _ in draws("gem", 0)] == [3, 3, 2]
    assert sum(len(rows) for _, rows, _ in draws("gem", 1)) == 8
    assert draws("gem", 0) == draws("gem", 0) != draws("gem", 1)
    assert [factor for *_, factor in draws("gem", 0)] == [1, 1, 1]
    assert [factor for *_, factor in draws("replay", 0)] == [3 / 8, 3 / 8, 2 / 8]
    drawn = {row for update in range(40) for _, rows, _ in draws("gem", update) for row in rows}
    assert drawn == set(range(10))


@pytest.mark.parametrize("memory", ["gem", "agem", '{ kind = "gem", scope = "layer", mode = "lean" }'])
def test_no_update_disagrees_with_memory(
    tiny: Path, one_thread: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: str
) -> None:
    made: list[Combined] = []
    finish = GradientEngine.finish

    def watched(engine: GradientEngine, *given: Any) -> Combined | None:
        combined = finish(engine, *given)
        if combined is not None and max(combined.tasks) > 0:
            made.append(combined)
        return combined

    monkeypatch.setattr(GradientEngine, "finish", watched)
    api.train(load_recipe(tiny, *in_turn(memory)), tmp_path / "run")
    assert len(made) == 24  # of both phases that have something to remember
    held = 0
    for combined in made:
        groups = torch.tensor(combined.groups)
        for group, weights in enumerate(combined.weights):
            gram = combined.grams[groups == group].sum(dim=0)
            along = (gram @ weights)[1:]
            assert (along >= -1e-6 * gram.diagonal()[1:].clamp(min=1e-6)).all()
            held += int((weights[1:] > 0).any())
    assert held > 0


@pytest.mark.parametrize(("memory", "moves"), [("keep", False), ("gem", False), ("replay", True)])
def test_only_replay_moves_what_old_tasks_have_alone(
    tiny: Path,
    one_thread: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    memory: str,
    moves: bool,
) -> None:
    seen = observe(load_recipe(tiny, *in_turn(memory)), tmp_path / "run", monkeypatch)
    first, last = seen.at_evaluations[1], seen.after
    own = [name for name in last if name.startswith("heads.task-mood.")]
    assert own
    assert [torch.equal(first[name], last[name]) for name in own] == [not moves] * len(own)
    shared = next(name for name in last if name.startswith("encoder.layers.0."))
    assert not torch.equal(first[shared], last[shared])


def test_memory_in_small_parts_gives_the_same_weights(
    tiny: Path, one_thread: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm = ["dropout=0", *(f"tasks.{name}.dropout=0" for name in NAMES)]
    memory = '{ kind = "gem", batch_size = 40 }'
    whole, parts = (
        observe(load_recipe(tiny, *in_turn(memory, *calm), *more), tmp_path / name, monkeypatch).after
        for name, more in (("whole", ()), ("parts", [f"phases.{n}.micro_batch=3" for n in range(3)]))
    )
    for name, tensor in whole.items():
        assert torch.allclose(tensor, parts[name], atol=2e-4), name


@pytest.mark.parametrize("memory", ["gem", "replay", '{ kind = "agem", choose = "herding", rows = 9 }'])
def test_a_run_stopped_while_it_rehearses_goes_on_bit_for_bit(
    tiny: Path, one_thread: None, tmp_path: Path, memory: str
) -> None:
    recipe = load_recipe(tiny, *in_turn(memory))
    api.train(recipe, tmp_path / "whole")
    for update in (18, 30):
        with pytest.raises(TrainingStopped):
            api.train(
                recipe,
                tmp_path / "run",
                resume=update > 18,
                listener=stop_at(at_update(update)),
            )
    api.train(recipe, tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    assert files_of(tmp_path / "run") == files_of(tmp_path / "whole")


@pytest.mark.parametrize("wanted", ["phase 1:", "epoch 1:"])
def test_a_run_killed_while_it_rehearses_goes_on_bit_for_bit(
    tiny: Path, shared_cache: Path, one_thread: None, tmp_path: Path, wanted: str
) -> None:
    changes, run = in_turn("gem"), tmp_path / "run"
    command = [sys.executable, "-m", "polytask", "train", str(tiny / "tiny.toml"), "--out", str(run)]
    command += [word for change in changes for word in ("--set", change)]
    environment = {**os.environ, "POLYTASK_CACHE": str(shared_cache)}
    rehearses = False
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            rehearses = rehearses or line.startswith("phase 1:")
            if rehearses and line.startswith(wanted):
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == -signal.SIGKILL
    api.train(load_recipe(tiny, *changes), run, resume=True)
    api.train(load_recipe(tiny, *changes), tmp_path / "whole")
    assert_same_run(run, tmp_path / "whole")
    assert files_of(run) == files_of(tmp_path / "whole")


def test_a_memory_with_a_changed_byte_is_refused(tiny: Path, one_thread: None, tmp_path: Path) -> None:
    recipe, run = load_recipe(tiny, *in_turn("gem")), tmp_path / "run"
    with pytest.raises(TrainingStopped):
        api.train(recipe, run, listener=stop_at(at_update(18)))
    path = run / FOLDER / "mood.jsonl"
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"mood\.jsonl: its SHA-256 is not the one in manifest\.json"):
        api.train(recipe, run, resume=True)
    (run / FOLDER / MANIFEST).write_text("{}")
    with pytest.raises(DataError, match=r"manifest\.json: cannot be read as a memory"):
        api.train(recipe, run, resume=True)


def test_a_later_phase_decides_what_is_kept_for_it(tiny: Path, one_thread: None, tmp_path: Path) -> None:
    changes = in_turn("keep", 'phases.1.memory={ kind = "replay", rows = 7, choose = "random" }')
    api.train(load_recipe(tiny, *changes), tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / FOLDER / MANIFEST).read_bytes())["tasks"]
    kept = {name: (entry["rows"], entry["choose"]) for name, entry in manifest.items()}
    assert kept == {"mood": (7, "random"), "alike": (7, "random"), "tags": (50, "balanced")}


def test_holding_a_frozen_encoder_is_refused(tiny: Path, one_thread: None, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"phases\.0\.memory is 'gem'.* Found heads\."):
        api.train(load_recipe(tiny, "phases.0.memory=gem", "phases.0.train=heads"), tmp_path / "run")


def test_prepared_rows_are_remembered_once_and_as_long_as_they_were_read(project: Path) -> None:
    changes = ["phases.0.epochs=1", "tasks.mood.augment=eda", "tasks.mood.balance=repeat"]
    changes += ['tasks.mood.join=[{ file = "mood-dev.tsv", max_length = 6 }]']
    run = api.train(load_recipe(project, *changes), project / "run").folder
    found = remembered_lines(run, "mood")
    assert len({(row["id"], row["texts"][0]) for row in found}) == len(found) == 80
    assert Counter(row.get("max_tokens") for row in found) == {None: 50, 6: 30}
    model = load(run, precision="fp32")
    kept = read_memory(run, model.tasks, ["mood"])["mood"]
    lengths = kept.table(model.tokenizer).lengths()[:, 0]
    assert max(length for row, length in zip(kept.rows, lengths, strict=True) if row.max_tokens) == 4
