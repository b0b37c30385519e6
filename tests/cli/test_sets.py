"""`polytask data` as a shell sees it: lists, one set told in full, and names that lead nowhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_hub import served

from polytask.data.catalogue import KNOWN_SETS


def run(tmp_path: Path, *arguments: str, **changes: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        **os.environ,
        "POLYTASK_CACHE": str(tmp_path / "cache"),
        "HF_HOME": str(tmp_path / "hf"),
        **changes,
    }
    command = [sys.executable, "-m", "polytask", "data", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_the_list_has_every_set_and_needs_no_network(tmp_path: Path) -> None:
    listed = run(tmp_path, "list", "--json", HF_ENDPOINT="http://127.0.0.1:9")
    assert [item["name"] for item in json.loads(listed.stdout)] == list(KNOWN_SETS)
    plain = run(tmp_path, "list", HF_ENDPOINT="http://127.0.0.1:9").stdout
    assert all(name in plain for name in KNOWN_SETS)


@pytest.mark.parametrize(
    "name", ["glue/mnli", "glue/stsb", "sick/relatedness", "ag-news", "cs224n/sst", "demo/sts"]
)
def test_one_set_is_told_in_full(tmp_path: Path, name: str) -> None:
    known = KNOWN_SETS[name]
    shown = json.loads(run(tmp_path, "show", name, "--json").stdout)
    assert (shown["licence"], shown["citation"], shown["kind"]) == (known.licence, known.citation, known.kind)
    told = " ".join(run(tmp_path, "show", name).stdout.split())
    for word in (known.licence, known.citation, known.label, *known.text, *(known.labels or {}).values()):
        assert " ".join(word.split()) in told
    if known.hub is not None:
        assert str(known.hub.revision) in told
        assert ("not pinned" in told) == (not known.hub.pinned)


def test_a_set_is_fetched_and_wrong_names_end_with_two(tmp_path: Path) -> None:
    with served() as hub:
        hub.add("datasets/owner/faq", {"train.csv": b"text,label\na,1\nb,0\n"})
        proxies = {name: "" for name in os.environ if "proxy" in name.lower()}
        fetched = run(
            tmp_path, "fetch", "hub:owner/faq", HF_ENDPOINT=hub.url, HF_HUB_DISABLE_XET="1", **proxies
        )
        assert fetched.returncode == 0, fetched.stderr
        assert (Path(fetched.stdout.strip()) / "train.parquet").is_file()
        missing = run(tmp_path, "fetch", "hub:owner/none", HF_ENDPOINT=hub.url, **proxies)
        assert missing.returncode == 2
        assert missing.stderr.splitlines()[-1].startswith(
            "polytask: owner/none: the hub has no public dataset"
        )
    wrong = run(tmp_path, "show", "glue/mnl")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "did you mean 'glue/mnli'?" in wrong.stderr
    gone = run(tmp_path, "fetch", "hub:owner/other", HF_ENDPOINT="http://127.0.0.1:9")
    assert gone.returncode == 1
