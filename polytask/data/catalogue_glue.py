"""GLUE's nine tasks and diagnostic set: on the hub, and in the folders that GLUE itself hands out."""

from collections.abc import Mapping

from polytask.data.known_set import SPLITS, HubSource, KnownSet, LocalLayout, parquet_files, same
from polytask.recipe_tasks import Kind, Metric

GLUE = "nyu-mll/glue"
GLUE_REVISION = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
GLUE_PAPER = "Wang et al. 2019, GLUE: A Multi-Task Benchmark and Analysis Platform"
TSV = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
ENTAILMENT = ("entailment", "not_entailment")
MNLI_SPLITS = {
    "train": "train",
    "dev": "validation_matched",
    "dev_mismatched": "validation_mismatched",
    "test": "test_matched",
    "test_mismatched": "test_mismatched",
}


def _glue(
    config: str,
    text: tuple[str, ...],
    labels: Mapping[str, str] | None,
    metric: Metric,
    licence: str,
    citation: str,
    local: LocalLayout,
) -> KnownSet:
    kind: Kind = "regression" if labels is None else "classification"
    names = tuple(MNLI_SPLITS) if config == "mnli" else ("test",) if config == "ax" else SPLITS
    hub = (
        HubSource(GLUE, config, GLUE_REVISION, MNLI_SPLITS)
        if config == "mnli"
        else HubSource(GLUE, config, GLUE_REVISION)
    )
    return KnownSet(
        files=parquet_files(*names),
        text=text,
        label="label",
        kind=kind,
        labels=labels,
        range=(0.0, 5.0) if kind == "regression" else None,
        metric=metric,
        in_mean=config not in ("wnli", "ax"),
        licence=licence,
        origin=f"the hub, {GLUE}, {config}",
        citation=f"{citation}; {GLUE_PAPER}",
        hub=hub,
        local=local,
    )


def _layout(
    folder: str,
    columns: Mapping[str, str],
    words: Mapping[str, str] | None = None,
    files: Mapping[str, str] = TSV,
    header: tuple[str, ...] = (),
) -> LocalLayout:
    return LocalLayout(folder, files, {"id": "index", "label": "label", **columns}, words or {}, header)


def _words(zero: str, one: str) -> dict[str, str]:
    return {"0": zero, "1": one}


PAIR = {"sentence1": "sentence1", "sentence2": "sentence2"}

GLUE_SETS: dict[str, KnownSet] = {
    "glue/cola": _glue(
        "cola",
        ("sentence",),
        same("unacceptable", "acceptable"),
        "matthews",
        "not stated; sentences from published linguistics",
        "Warstadt et al. 2019, Neural Network Acceptability Judgments",
        _layout(
            "CoLA",
            {"sentence": "sentence"},
            _words("unacceptable", "acceptable"),
            header=("source", "label", "star", "sentence"),
        ),
    ),
    "glue/sst2": _glue(
        "sst2",
        ("sentence",),
        same("negative", "positive"),
        "accuracy",
        "not stated",
        "Socher et al. 2013, Recursive Deep Models for Semantic Compositionality",
        _layout("SST-2", {"sentence": "sentence"}, _words("negative", "positive")),
    ),
    "glue/mrpc": _glue(
        "mrpc",
        ("sentence1", "sentence2"),
        same("not_equivalent", "equivalent"),
        "f1",
        "not stated; Microsoft Research",
        "Dolan & Brockett 2005, Automatically Constructing a Corpus of Sentential Paraphrases",
        _layout(
            "MRPC",
            {"sentence1": "#1 String", "sentence2": "#2 String", "label": "Quality"},
            _words("not_equivalent", "equivalent"),
        ),
    ),
    "glue/qqp": _glue(
        "qqp",
        ("question1", "question2"),
        same("not_duplicate", "duplicate"),
        "f1",
        "Quora's terms of service",
        "Iyer et al. 2017, First Quora Dataset Release: Question Pairs",
        _layout(
            "QQP",
            {"id": "id", "question1": "question1", "question2": "question2", "label": "is_duplicate"},
            _words("not_duplicate", "duplicate"),
        ),
    ),
    "glue/stsb": _glue(
        "stsb",
        ("sentence1", "sentence2"),
        None,
        "pearson",
        "that of each of its sources",
        "Cer et al. 2017, SemEval-2017 Task 1: Semantic Textual Similarity",
        _layout("STS-B", {**PAIR, "label": "score"}),
    ),
    "glue/mnli": _glue(
        "mnli",
        ("premise", "hypothesis"),
        same("entailment", "neutral", "contradiction"),
        "accuracy",
        "by genre: OANC's, CC BY 3.0, CC BY-SA 3.0 and others",
        "Williams et al. 2018, A Broad-Coverage Challenge Corpus for Sentence Understanding",
        _layout(
            "MNLI",
            {"premise": "sentence1", "hypothesis": "sentence2", "label": "gold_label"},
            files={
                "train": "train.tsv",
                "dev": "dev_matched.tsv",
                "dev_mismatched": "dev_mismatched.tsv",
                "test": "test_matched.tsv",
                "test_mismatched": "test_mismatched.tsv",
            },
        ),
    ),
    "glue/qnli": _glue(
        "qnli",
        ("question", "sentence"),
        same(*ENTAILMENT),
        "accuracy",
        "CC BY-SA 4.0 (SQuAD)",
        "Rajpurkar et al. 2016, SQuAD: 100,000+ Questions for Machine Comprehension of Text",
        _layout("QNLI", {"question": "question", "sentence": "sentence"}),
    ),
    "glue/rte": _glue(
        "rte",
        ("sentence1", "sentence2"),
        same(*ENTAILMENT),
        "accuracy",
        "not stated",
        "Dagan et al. 2006, The PASCAL Recognising Textual Entailment Challenge, and RTE-2, 3 and 5",
        _layout("RTE", PAIR),
    ),
    "glue/wnli": _glue(
        "wnli",
        ("sentence1", "sentence2"),
        same("not_entailment", "entailment"),
        "accuracy",
        "CC BY 4.0 (Winograd Schema Challenge)",
        "Levesque et al. 2012, The Winograd Schema Challenge",
        _layout("WNLI", PAIR, _words("not_entailment", "entailment")),
    ),
    "glue/ax": _glue(
        "ax",
        ("premise", "hypothesis"),
        same("entailment", "neutral", "contradiction"),
        "matthews",
        "not stated",
        "Wang et al. 2019, GLUE's diagnostic set",
        _layout(
            "diagnostic",
            {"premise": "sentence1", "hypothesis": "sentence2"},
            files={"test": "diagnostic.tsv"},
        ),
    ),
}
