"""The page shows what each task answered, escapes every text, and says where texts are gone."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest
from fake_answers import write_answered, write_task
from test_page import HOSTILE, Parts, charts_in, read, without_charts

from polytask.report import write_report

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
KINDS = {"ask": "classification", "near": "regression", "tags": "multilabel"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_answered(tmp_path / "run", KINDS)


def errors_in(html: str) -> int:
    return len(re.findall(r'<td class="text"', html))


def test_each_kind_of_task_has_its_pictures_and_its_errors(run: Path) -> None:
    html = read(write_report(run))
    parts = Parts(html)
    for shown in ("Confidence", "Labels", "Confusion", "Label by label", "Answers and truth", "Worst errors"):
        assert shown in parts.text
    assert html.count("data-errors>") == 3
    assert "text 1 of many" in parts.text or "text 2 of many" in parts.text
    assert "not shown" not in parts.text
    assert "Precision" in parts.text
    says = [chart["description"] for chart in charts_in(html)]
    assert says.count("Share of right answers at each confidence.") == 2
    assert says.count("Answers over true values.") == 1


def test_the_matrix_holds_the_counts(tmp_path: Path) -> None:
    run = write_answered(tmp_path, {"ask": "classification"})
    rows = [("a", "x", "yes", "no", [0.2, 0.8])] * 7 + [("b", "x", "no", "no", [0.4, 0.6])] * 5
    write_task(run, "ask", rows, ["yes", "no"])
    html = read(write_report(run))
    assert 'data-true="0" data-given="1">7</button>' in html
    assert 'title="yes, answered no: 7 of 7 rows, 100.0%"' in html
    assert '<td class="right s10" title="no, answered no: 5 of 5 rows, 100.0%">5</td>' in html
    assert "7 of 12 rows wrong; most often yes taken for no (7)" in Parts(html).text


def test_hostile_texts_labels_and_ids_are_text_and_nothing_else(tmp_path: Path) -> None:
    hostile = [*HOSTILE[:3], "</td></table><iframe>"]
    labels = [*hostile[:3], '" onmouseover="alert(1)']
    rows = [
        (f"{text}{place}", text, labels[place], labels[(place + 1) % 4], [0.1, 0.2, 0.3, 0.4])
        for place, text in enumerate(hostile)
    ]
    run = write_answered(tmp_path / "hostile", {"ask": "classification"}, labels=4)
    write_task(run, "ask", rows, labels)
    plain = write_answered(tmp_path / "plain", {"ask": "classification"}, labels=4)
    write_task(
        plain,
        "ask",
        [(f"{n}", f"t{n}", f"l{n}", f"l{(n + 1) % 4}", [0.1, 0.2, 0.3, 0.4]) for n in range(4)],
        [f"l{n}" for n in range(4)],
    )
    html, harmless = read(write_report(run)), read(write_report(plain))
    parts = Parts(html)
    assert parts.tags == Parts(harmless).tags
    assert {name for name, _ in parts.attributes} == {name for name, _ in Parts(harmless).attributes}
    for text in (*hostile, *labels):
        assert text in parts.text


def test_texts_that_are_gone_are_said_to_be(run: Path) -> None:
    (run / "ask.csv").unlink()
    text = Parts(read(write_report(run))).text
    assert re.search(r"The texts are not shown: \S*ask.csv does not hold these rows any more", text)
    assert text.count("not shown") == 1


def test_a_long_text_is_cut(tmp_path: Path) -> None:
    run = write_answered(tmp_path, {"ask": "classification"})
    write_task(run, "ask", [("a", "long " * 50_000, "yes", "no", [0.2, 0.8])], ["yes", "no"])
    html = read(write_report(run))
    assert html.count("long ") < 110
    assert "…" in html


def test_thirty_tasks_are_folded_and_share_the_room(tmp_path: Path) -> None:
    kinds = [*KINDS.values()]
    run = write_answered(tmp_path, {f"t{number}": kinds[number % 3] for number in range(30)}, rows=80)
    path = write_report(run)
    html = read(path)
    assert html.count('<details class="part">') == 30
    assert errors_in(html) == 30 * 8
    assert path.stat().st_size < 2_500_000


def test_few_tasks_are_open(run: Path) -> None:
    assert read(write_report(run)).count('<details class="part" open>') == 3


def test_many_labels_have_a_list_of_confusions_and_no_matrix(tmp_path: Path) -> None:
    run = write_answered(tmp_path, {"ask": "classification"}, rows=400, labels=40)
    html = read(write_report(run))
    assert "Commonest confusions" in html
    assert 'class="matrix' not in html
    balance = next(chart for chart in charts_in(html) if chart["description"] == "Share of each label.")
    (rows,) = balance["datasets"].values()
    assert len({row["label"] for row in rows}) == 24


def test_only_values_need_no_labels(tmp_path: Path) -> None:
    run = write_answered(tmp_path, {"near": "regression"})
    html = read(write_report(run))
    assert "Confusion" not in html
    assert "60 rows, " in Parts(html).text


def test_true_values_are_level_marks_over_the_bars(tmp_path: Path) -> None:
    charts = charts_in(read(write_report(write_answered(tmp_path, {"near": "regression"}))))
    balance = next(chart for chart in charts if chart["description"].startswith("How often each value"))
    bars, marks = (layer["encoding"] for layer in balance["layer"])
    assert bars["x"]["bin"] == "binned"
    assert "bin" not in marks["x"]  # of bins a rule would stand upright
    (rows,) = balance["datasets"].values()
    assert sum(row["share"] for row in rows if row["of"] == "Answered") == pytest.approx(1, abs=1e-3)


def test_labels_of_train_stand_beside_those_of_dev(run: Path) -> None:
    events = (run / "events.jsonl").read_text().splitlines()
    done = json.loads(events[-1]) | {"classes": {"ask": {"label 0": 30, "label 1": 10}}}
    (run / "events.jsonl").write_text("\n".join([*events[:-1], json.dumps(done)]))
    balance = [c for c in charts_in(read(write_report(run))) if c["description"] == "Share of each label."]
    (rows,) = balance[0]["datasets"].values()
    train = {row["label"]: row["share"] for row in rows if row["of"] == "On train"}
    assert train == {"label 0": 0.75, "label 1": 0.25, "label 2": 0}
    assert "On train" in read(run / "report.html")


@pytest.mark.parametrize("recipe", [None, "nonsense = ", "encoder = 3\n"])
def test_without_a_recipe_to_read_there_are_no_answers(run: Path, recipe: str | None) -> None:
    (run / "recipe.toml").unlink()
    if recipe is not None:
        (run / "recipe.toml").write_text(recipe)
    html = read(write_report(run))
    assert "Answers on dev rows" not in html
    assert "<h2" in html


def test_a_run_without_dev_rows_is_whole(run: Path) -> None:
    shutil.rmtree(run / "predictions")
    (run / "scores.json").write_text('{"tasks": {}, "mean": null}')
    events = [line for line in (run / "events.jsonl").read_text().splitlines() if '"evaluate"' not in line]
    (run / "events.jsonl").write_text("\n".join(events))
    html = read(write_report(run))
    assert "no task has dev rows" in Parts(html).text
    assert "not complete" not in html
    assert "Training loss" in html


def test_confusion_and_errors_need_no_charts(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_charts(monkeypatch)
    html = read(write_report(run))
    assert 'class="matrix' in html
    assert errors_in(html) > 60
    assert html.count("<script>") == 1  # the search


def test_a_real_run_has_all_its_texts(trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run, ignore=shutil.ignore_patterns("checkpoints", "model"))
    parts = Parts(read(write_report(run)))
    assert "Worst errors" in parts.text
    assert "not shown" not in parts.text
    assert "Parameters of mood alone" in parts.text
    assert "On train" in parts.text


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
def test_a_browser_draws_every_chart_and_runs_nothing_else(tmp_path: Path) -> None:
    assert BROWSER
    run = write_answered(tmp_path / "run", KINDS)
    rows = [("a", "<script>document.title = 'owned'</script>", "yes", "no", [0.2, 0.8])]
    write_task(run, "ask", rows, ["yes", "no"])
    page = write_report(run)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=20000"]
    found = subprocess.run(
        [BROWSER, *flags, page.as_uri()], capture_output=True, text=True, check=True, timeout=120
    )
    assert found.stdout.count('class="marks"') == len(charts_in(read(page)))
    assert "1 of 1 shown" in found.stdout
    assert "<title>run · polytask</title>" in found.stdout
    assert "<script>document.title" in unescape(found.stdout)
    assert "CONSOLE" not in found.stderr
