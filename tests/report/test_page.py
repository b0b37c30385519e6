"""The page says what a run folder holds, escapes it, fetches nothing, and is whole for a broken run."""

import base64
import hashlib
import json
import re
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from fake_run import write_run

from polytask.errors import UserError
from polytask.report import write_report

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"'><b>&amp;{{datum}}",
    "\ud800\u2028",
]


class Parts(HTMLParser):
    """Tags, attributes, visible text and scripts of a page, as a browser would split them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text, self.inside = "", False
        self.scripts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.inside = tag == "script"
        if self.inside:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.scripts[-1] += data
        else:
            self.text += data


def read(page: Path) -> str:
    return page.read_bytes().decode("utf-8")


def charts_in(html: str) -> list[dict[str, Any]]:
    found = re.search(r'<script type="application/json" id="charts">(.*?)</script>', html, re.DOTALL)
    assert found
    charts: list[dict[str, Any]] = json.loads(found[1])["charts"]
    return charts


def without_charts(monkeypatch: pytest.MonkeyPatch, missing: str = "altair") -> None:
    import polytask.report

    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "polytask.report.charts", raising=False)
    monkeypatch.delattr(polytask.report, "charts", raising=False)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "first-run", ["sst", "quora", "valence"], updates=60)


def test_the_page_shows_scores_baselines_and_gains(run: Path) -> None:
    text = Parts(read(write_report(run))).text
    for shown in ("first-run", "minilm", "accuracy", "0.863", "0.760", "+0.103", "TF-IDF", "22.7M", "3,000"):
        assert shown in text


def test_less_error_than_the_baseline_is_a_gain(run: Path) -> None:
    assert "+0.310" in Parts(read(write_report(run))).text


def test_more_error_than_the_baseline_is_a_loss(run: Path) -> None:
    scores = json.loads((run / "scores.json").read_text())
    scores["tasks"]["valence"]["score"] = 1.25
    (run / "scores.json").write_text(json.dumps(scores))
    assert '<td class="n bad">\N{MINUS SIGN}0.230</td>' in read(write_report(run))


def test_every_chart_has_its_place(run: Path) -> None:
    html = read(write_report(run))
    charts = charts_in(html)
    assert [f'data-chart="{n}"' in html for n in range(len(charts))] == [True] * 11  # 5 of the run, 2 a task
    assert all(chart["width"] == "container" for chart in charts)


def test_the_page_names_no_address(run: Path) -> None:
    html = read(write_report(run))
    for name, value in Parts(html).attributes:
        assert name != "href" or str(value).startswith("#")
        assert name not in ("src", "action", "data", "srcset", "style"), (name, value)
    own = html.replace(max(Parts(html).scripts, key=len), "")
    assert "://" not in own
    assert "url(" not in own
    assert "@import" not in own


def test_the_policy_allows_the_two_scripts_and_nothing_from_outside(run: Path) -> None:
    parts = Parts(read(write_report(run)))
    policy = next(value or "" for name, value in parts.attributes if value and "default-src" in value)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    assert len(parts.scripts) == 3
    for script in parts.scripts[1:]:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_hostile_names_are_text_and_nothing_else(tmp_path: Path) -> None:
    run = write_run(tmp_path / "<script>alert(0)<", HOSTILE, updates=20)
    (run / "recipe.toml").write_text("</pre></details><script>alert(2)</script>")
    scores = json.loads((run / "scores.json").read_text())
    entry = scores["tasks"][HOSTILE[0]]
    entry["metric"], entry["baselines"] = "<i>metric", {"<u>base": 0.1}
    entry["metrics"] = {"<i>metric": 0.4}
    (run / "scores.json").write_text(json.dumps(scores))
    html = read(write_report(run))
    plain = write_run(tmp_path / "plain", ["a", "b", "c", "d"], updates=20)
    parts, harmless = Parts(html), Parts(read(write_report(plain)))
    assert not {"img", "u"} & set(parts.tags)
    assert parts.tags.count("script") == harmless.tags.count("script") == 3
    assert parts.tags.count("b") == harmless.tags.count("b")
    assert parts.tags.count("i") == harmless.tags.count("i") + 1  # the key of the baseline added above
    for hostile in (*HOSTILE[:3], "<script>alert(0)<", "<script>alert(2)</script>", "<i>metric", "<u>base"):
        assert hostile in parts.text
    assert HOSTILE[0] in json.dumps(charts_in(html))


def test_an_interrupted_run_says_what_is_missing_and_shows_the_rest(run: Path) -> None:
    (run / "scores.json").unlink()
    events = (run / "events.jsonl").read_text()
    (run / "events.jsonl").write_text(events[: events.rindex('"event": "evaluate"') + 30])
    html = read(write_report(run))
    text = Parts(html).text
    assert "This run is not complete." in text
    assert "scores.json is not there" in text
    assert "a line that could not be read" in text
    assert "Training was interrupted or is still going on" in text
    assert "Mean score so far" in text
    assert len(charts_in(html)) == 10  # all but the scores


def test_a_complete_run_misses_nothing(run: Path) -> None:
    assert "not complete" not in Parts(read(write_report(run))).text


@pytest.mark.parametrize("name", ["recipe.toml", "events.jsonl", "scores.json"])
def test_any_one_file_is_enough_for_a_page(run: Path, name: str) -> None:
    for other in {"recipe.toml", "events.jsonl", "scores.json"} - {name}:
        (run / other).unlink()
    parts = Parts(read(write_report(run)))
    assert parts.text.count(" is not there") == 2
    assert parts.tags.count("h1") == 1


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", '{"tasks": 3}', "[" * 100_000, '{"mean": NaN}', "\0"]
)
def test_damaged_files_still_give_a_page(run: Path, content: str) -> None:
    (run / "scores.json").write_text(content)
    (run / "events.jsonl").write_text(content)
    assert "scores.json could not be read" in Parts(read(write_report(run))).text


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run folder"):
        write_report(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_without_the_extra_the_page_has_tables_and_the_command_that_adds_charts(
    run: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    without_charts(monkeypatch, missing)
    html = read(write_report(run))
    assert "pip install 'polytask[report]'" in unescape(html)
    assert "<script" not in html
    assert "script-src 'none'" in html
    assert "0.863" in html
    assert len(html) < 30_000


def test_the_page_is_the_same_every_time_and_leaves_no_draft(run: Path) -> None:
    once = read(write_report(run))
    before = {path.name for path in run.iterdir()}
    assert read(write_report(run)) == once
    assert (
        {path.name for path in run.iterdir()}
        == before
        == {"recipe.toml", "events.jsonl", "scores.json", "report.html"}
    )


def test_report_html_that_is_a_link_is_replaced_and_not_followed(run: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    (run / "report.html").symlink_to(outside)
    write_report(run)
    assert outside.read_text() == "mine"
    assert not (run / "report.html").is_symlink()
