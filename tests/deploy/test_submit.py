"""Submissions: GLUE's zip from a run on GLUE-shaped tasks, CS224N's files, and what is refused."""

import csv
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from glue_layout import SIZES, write_glue
from tiny_project import write_project

from polytask import api
from polytask.deploy.submit import submit
from polytask.deploy.submit_glue import FILES
from polytask.errors import DataError, UserError
from polytask.recipe import Recipe

EIGHT = ("cola", "sst2", "mrpc", "stsb", "mnli", "qnli", "qqp", "rte")
WORDS = {
    **{key: {"0", "1"} for key in ("CoLA", "SST-2", "MRPC", "QQP")},
    **{key: {"entailment", "neutral", "contradiction"} for key in ("MNLI-m", "MNLI-mm", "AX")},
    **{key: {"entailment", "not_entailment"} for key in ("QNLI", "RTE")},
}
SHORT: dict[str, Any] = {"epochs": 1, "steps_per_epoch": 8, "batch_size": 4, "lr": 1e-3, "conflict_every": 0}


@pytest.fixture(scope="module")
def glue_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight tasks of GLUE with PALs on a tiny encoder, trained from GLUE's own folders."""
    folder = tmp_path_factory.mktemp("glue-run")
    write_project(folder)
    write_glue(folder / "glue")
    values = {
        "encoder": "encoder",
        "max_length": 32,
        "precision": "fp32",
        "threads": 1,
        "data": "glue",
        "adapter": {"kind": "pal", "size": 12},
        "tasks": {name: {"train": f"glue/{name}"} for name in EIGHT},
        "phases": [SHORT],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYTASK_CACHE", str(folder / "cache"))
        patch.setenv("POLYTASK_OFFLINE", "1")
        api.train(Recipe.from_dict(values, base=folder), folder / "run")
    return folder


@pytest.fixture
def own_cache(glue_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTASK_CACHE", str(glue_run / "cache"))
    monkeypatch.setenv("POLYTASK_OFFLINE", "1")


def read(path: Path) -> dict[str, list[list[str]]]:
    with zipfile.ZipFile(path) as packed:
        assert packed.testzip() is None
        return {
            name.removesuffix(".tsv"): [line.split("\t") for line in packed.read(name).decode().splitlines()]
            for name in packed.namelist()
        }


def test_eight_tasks_with_pals_give_a_whole_submission(
    glue_run: Path, own_cache: None, tmp_path: Path
) -> None:
    done = submit(glue_run / "run", "glue", tmp_path / "out" / "glue.zip")
    found = read(tmp_path / "out" / "glue.zip")
    assert set(found) == {file.name for file in FILES} - {"WNLI"}
    for name, lines in found.items():
        assert lines[0] == ["index", "prediction"]
        assert [line[0] for line in lines[1:]] == [
            str(n) for n in range(5 if name == "AX" else SIZES["test"])
        ]
        if name == "STS-B":
            assert all(0 <= float(value) <= 5 and len(value) == 5 for _, value in lines[1:])
        else:
            assert {word for _, word in lines[1:]} <= WORDS[name]
    assert "WNLI.tsv is left out: the run has no task for it." in done.notes
    assert "CoLA.tsv has 7 rows, where GLUE's own has 1,063." in done.notes
    assert done.rows["AX.tsv"] == 5
    again = submit(glue_run / "run", "glue", tmp_path / "again.zip")
    assert again.path.read_bytes() == done.path.read_bytes()


def test_the_words_are_those_of_the_runs_own_predictions(
    glue_run: Path, own_cache: None, tmp_path: Path
) -> None:
    submit(glue_run / "run", "glue", tmp_path / "glue.zip")
    found = read(tmp_path / "glue.zip")
    names = {"unacceptable": "0", "acceptable": "1"}
    with (glue_run / "run" / "predictions" / "cola-test.csv").open() as file:
        assert [line[1] for line in found["CoLA"][1:]] == [
            names[row["answer"]] for row in csv.DictReader(file)
        ]
    model = api.load(glue_run / "run")
    lines = (glue_run / "glue" / "MNLI" / "test_mismatched.tsv").read_text().splitlines()[1:]
    pairs = [(line.split("\t")[8], line.split("\t")[9]) for line in lines]
    assert [line[1] for line in found["MNLI-mm"][1:]] == [
        item["label"] for item in model.predict("mnli", pairs)
    ]


def test_a_set_is_scored_by_name(glue_run: Path, own_cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTASK_DATA", str(glue_run / "glue"))
    scores = api.evaluate(glue_run / "run", task="mnli", data="glue/mnli:dev_mismatched")
    assert scores["tasks"]["mnli"]["rows"] == SIZES["dev"]


def test_predictions_that_do_not_fit_the_test_rows_are_refused(
    glue_run: Path, own_cache: None, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(glue_run / "run", tmp_path / "run"))
    path = run / "predictions" / "rte-test.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))
    with pytest.raises(
        DataError, match=r"rte: .*rte-test\.csv has 6 answers to the 7 rows of .*test\.parquet"
    ):
        submit(run, "glue", tmp_path / "out.zip")
    path.write_text("".join([lines[0], lines[2], lines[1], *lines[3:]]))
    with pytest.raises(DataError, match=r"rte: row 0 of .* has the id '1', of .* '0'"):
        submit(run, "glue", tmp_path / "out.zip")
    assert not (tmp_path / "out.zip").exists()


def test_mistakes_are_told(glue_run: Path, own_cache: None, tmp_path: Path, trained: Path) -> None:
    run = glue_run / "run"
    with pytest.raises(UserError, match=r"--format should be one of glue, cs224n\. Found 'gleu'"):
        submit(run, "gleu", tmp_path / "a.zip")
    with pytest.raises(UserError, match=r"--out should be a \.zip file"):
        submit(run, "glue", tmp_path / "a.tsv")
    with pytest.raises(UserError, match="should be a run folder"):
        submit(run / "model", "glue", tmp_path / "a.zip")
    with pytest.raises(UserError, match=r"--as rte=wnlo: the set should be one of .* Found 'glue/wnlo'"):
        submit(run, "glue", tmp_path / "a.zip", {"rte": "wnlo"})
    with pytest.raises(UserError, match=r"--as x=rte: the task should be one of"):
        submit(run, "glue", tmp_path / "a.zip", {"x": "rte"})
    with pytest.raises(UserError, match=r"rte and qnli are both glue/rte|qnli and rte are both glue/rte"):
        submit(run, "glue", tmp_path / "a.zip", {"qnli": "rte"})
    with pytest.raises(UserError, match="nothing to submit"):
        submit(trained, "glue", tmp_path / "a.zip")


def test_own_files_of_one_task_are_submitted_by_its_name(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"the film is good {word}" for word in "abcdef"]
    for split, header in (("train", "text\tlabel"), ("test", "text")):
        rows = [f"{text}\t{n % 2}" if split == "train" else text for n, text in enumerate(texts)]
        (project / f"own-{split}.tsv").write_text("\n".join([header, *rows]) + "\n")
    values = {
        "encoder": "encoder",
        "max_length": 24,
        "precision": "fp32",
        "threads": 1,
        "phases": [SHORT],
        "tasks": {
            "mine": {"train": "own-train.tsv", "test": "own-test.tsv", "labels": {"0": "no", "1": "yes"}}
        },
    }
    api.train(Recipe.from_dict(values, base=project), project / "run")
    done = submit(project / "run", "glue", tmp_path / "own.zip", {"mine": "cola"})
    assert done.rows == {"CoLA.tsv": 6}
    assert {word for _, word in read(done.path)["CoLA"][1:]} <= {"0", "1"}


def test_the_courses_files_are_those_of_its_own_code(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = project / "course"
    data.mkdir()
    for split in ("train", "dev"):
        rows = [f"{n}\ts{n}\tthe film is good {n}\t{n % 5}" for n in range(10)]
        (data / f"ids-sst-{split}.csv").write_text("\n".join(["\tid\tsentence\tsentiment", *rows]) + "\n")
        head = "\tid\tsentence1\tsentence2\t"
        rows = [f"{n}\tq{n}\tthe film {n}\tthe song\t{n % 2}.0" for n in range(10)]
        (data / f"quora-{split}.csv").write_text("\n".join([f"{head}is_duplicate", *rows]) + "\n")
        rows = [f"{n}\tp{n}\tthe film {n}\tthe song\t{n % 6}.0" for n in range(10)]
        (data / f"sts-{split}.csv").write_text("\n".join([f"{head}similarity", *rows]) + "\n")
    (data / "ids-sst-test-student.csv").write_text("\tid\tsentence\n0\tt0\tthe film\n1\tt1\tthe song\n")
    (data / "sts-test-student.csv").write_text("\tid\tsentence1\tsentence2\n0\tt0\tthe film\tthe song\n")
    values = {
        "encoder": "encoder",
        "max_length": 24,
        "precision": "fp32",
        "threads": 1,
        "phases": [SHORT],
        "data": "course",
        "tasks": {
            "feeling": {"train": "cs224n/sst"},
            "b": {"train": "cs224n/quora"},
            "c": {"train": "cs224n/sts"},
        },
    }
    api.train(Recipe.from_dict(values, base=project), project / "run")
    command = [sys.executable, "-m", "polytask", "submit", str(project / "run"), "--format", "cs224n"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "course.zip"), "--json"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    written = json.loads(done.stdout)
    assert written["rows"] == {
        f"predictions/bert/multitask/{name}-output.csv": rows
        for name, rows in {"sst-dev": 10, "sst-test": 2, "para-dev": 10, "sts-dev": 10, "sts-test": 1}.items()
    }
    assert "para-test-output.csv is left out: the run has no test rows." in written["notes"]
    with zipfile.ZipFile(written["submission"]) as packed:
        files = {name.rpartition("/")[2]: packed.read(name).decode() for name in packed.namelist()}
    first, second, _ = files["sst-test-output.csv"].splitlines()
    assert first == "id \t Predicted_Sentiment "
    assert second.startswith("t0 , ")
    assert second[5:] in [f"{n} " for n in range(5)]
    assert files["para-dev-output.csv"].startswith("id \t Predicted_Is_Paraphrase \nq0 , ")
    assert {line.split(" , ")[1] for line in files["para-dev-output.csv"].splitlines()[1:]} <= {
        "0.0 ",
        "1.0 ",
    }
    head, row = files["sts-test-output.csv"].splitlines()
    assert head == "id \t Predicted_Similiary "
    assert 0 <= float(row.split(" , ")[1]) <= 5
