"""Sets on the hub that many a multi-task model is trained on; those without dev rows get a tenth of train."""

from dataclasses import dataclass, field

from polytask.data.known_set import SPLITS, HubSource, KnownSet, parquet_files
from polytask.recipe_tasks import Kind

WITHOUT_DEV = {"train": "train", "test": "test"}
TWEET_TERMS = "by subset; X's terms for the texts"
TWEET_EVAL = "Barbieri et al. 2020, TweetEval: Unified Benchmark and Comparative Evaluation for Tweets"
SICK = "Marelli et al. 2014, A SICK Cure for the Evaluation of Compositional Semantic Models"
SICK_SOURCE = HubSource("RobZamp/sick", "default", "refs/convert/parquet")
TWEET_SOURCES = {
    name: HubSource("cardiffnlp/tweet_eval", name, "b3a375baf0f409c77e6bc7aa35102b7b3534f8be")
    for name in ("sentiment", "offensive", "irony")
}


@dataclass(frozen=True)
class _Columns:
    """Which columns are the texts and the label, and what the label is."""

    text: tuple[str, ...]
    label: str = "label"
    kind: Kind = "classification"
    labels: dict[str, str] | None = field(default=None, hash=False)  # None: the words in the file itself
    range: tuple[float, float] | None = None


def _hub(source: HubSource, columns: _Columns, licence: str, citation: str) -> KnownSet:
    has = [split for split in SPLITS if split in source.splits or split == "dev"]
    return KnownSet(
        files=parquet_files(*has),
        text=columns.text,
        label=columns.label,
        kind=columns.kind,
        labels=columns.labels,
        range=columns.range,
        licence=licence,
        origin=f"the hub, {source.name}, {source.config}",
        citation=citation,
        hub=source,
    )


TEXT = _Columns(("text",))

HUB_SETS: dict[str, KnownSet] = {
    "sst2": _hub(
        HubSource("stanfordnlp/sst2", "default", "8d51e7e4887a4caaa95b3fbebbf53c0490b58bbb"),
        _Columns(("sentence",)),
        "not stated",
        "Socher et al. 2013, Recursive Deep Models for Semantic Compositionality",
    ),
    "sst5": _hub(
        HubSource("SetFit/sst5", "default", "e51bdcd8cd3a30da231967c1a249ba59361279a3"),
        _Columns(("text",), "label_text"),
        "not stated",
        "Socher et al. 2013, Recursive Deep Models for Semantic Compositionality",
    ),
    "rotten-tomatoes": _hub(
        HubSource(
            "cornell-movie-review-data/rotten_tomatoes",
            "default",
            "aa13bc287fa6fcab6daf52f0dfb9994269ffea28",
        ),
        TEXT,
        "not stated",
        "Pang & Lee 2005, Seeing Stars",
    ),
    "imdb": _hub(
        HubSource("stanfordnlp/imdb", "plain_text", "e6281661ce1c48d982bc483cf8a173c1bbeb5d31", WITHOUT_DEV),
        TEXT,
        "other; non-commercial",
        "Maas et al. 2011, Learning Word Vectors for Sentiment Analysis",
    ),
    "snli": _hub(
        HubSource("stanfordnlp/snli", "plain_text", "cdb5c3d5eed6ead6e5a341c8e56e669bb666725b"),
        _Columns(("premise", "hypothesis")),
        "CC BY-SA 4.0",
        "Bowman et al. 2015, A Large Annotated Corpus for Learning Natural Language Inference",
    ),
    "sick/entailment": _hub(SICK_SOURCE, _Columns(("sentence_A", "sentence_B")), "CC BY-NC-SA 3.0", SICK),
    "sick/relatedness": _hub(
        SICK_SOURCE,
        _Columns(("sentence_A", "sentence_B"), "relatedness_score", "regression", range=(1.0, 5.0)),
        "CC BY-NC-SA 3.0",
        SICK,
    ),
    "paws": _hub(
        HubSource(
            "google-research-datasets/paws", "labeled_final", "161ece9501cf0a11f3e48bd356eaa82de46d6a09"
        ),
        _Columns(("sentence1", "sentence2"), labels={"0": "different", "1": "paraphrase"}),
        "free for any purpose, acknowledgement of Google asked for",
        "Zhang et al. 2019, PAWS: Paraphrase Adversaries from Word Scrambling",
    ),
    "boolq": _hub(
        HubSource(
            "google/boolq",
            "default",
            "35b264d03638db9f4ce671b711558bf7ff0f80d5",
            {"train": "train", "dev": "validation"},
        ),
        _Columns(("question", "passage"), "answer", labels={"0": "no", "1": "yes"}),
        "CC BY-SA 3.0",
        "Clark et al. 2019, BoolQ: Exploring the Surprising Difficulty of Natural Yes/No Questions",
    ),
    "ag-news": _hub(
        HubSource("fancyzhx/ag_news", "default", "eb185aade064a813bc0b7f42de02595523103ca4", WITHOUT_DEV),
        TEXT,
        "not stated; non-commercial",
        "Zhang et al. 2015, Character-level Convolutional Networks for Text Classification",
    ),
    "dbpedia": _hub(
        HubSource(
            "fancyzhx/dbpedia_14", "dbpedia_14", "9abd46cf7fc8b4c64290f26993c540b92aa145ac", WITHOUT_DEV
        ),
        _Columns(("content",)),
        "CC BY-SA 3.0",
        "Zhang et al. 2015, Character-level Convolutional Networks for Text Classification",
    ),
    "yelp-full": _hub(
        HubSource(
            "Yelp/yelp_review_full",
            "yelp_review_full",
            "c1f9ee939b7d05667af864ee1cb066393154bf85",
            WITHOUT_DEV,
        ),
        TEXT,
        "Yelp's dataset licence",
        "Zhang et al. 2015, Character-level Convolutional Networks for Text Classification",
    ),
    "trec": _hub(
        HubSource("CogComp/trec", "default", "65752bf53af25bc935a0dce92fb5b6c930728450", WITHOUT_DEV),
        _Columns(("text",), "coarse_label"),
        "not stated",
        "Li & Roth 2002, Learning Question Classifiers",
    ),
    "sms-spam": _hub(
        HubSource(
            "ucirvine/sms_spam",
            "plain_text",
            "cae486f927c250fe1d4a5b55f11357964ed1646c",
            {"train": "train"},
        ),
        _Columns(("sms",)),
        "CC BY 4.0",
        "Almeida et al. 2011, Contributions to the Study of SMS Spam Filtering",
    ),
    "banking77": _hub(
        HubSource("mteb/banking77", "default", "0fd18e25b25c072e09e0d92ab615fda904d66300", WITHOUT_DEV),
        _Columns(("text",), "label_text"),
        "CC BY 4.0",
        "Casanueva et al. 2020, Efficient Intent Detection with Dual Sentence Encoders",
    ),
    "clinc150": _hub(
        HubSource("clinc/clinc_oos", "plus", "155b9c710419136e17307b80d0a13e68cd46b4ec"),
        _Columns(("text",), "intent"),
        "CC BY 3.0",
        "Larson et al. 2019, An Evaluation Dataset for Intent Classification and Out-of-Scope Prediction",
    ),
    "emotion": _hub(
        HubSource("dair-ai/emotion", "split", "cab853a1dbdf4c42c2b3ef2173804746df8825fe"),
        TEXT,
        "other; education and research only",
        "Saravia et al. 2018, CARER: Contextualized Affect Representations for Emotion Recognition",
    ),
    "go-emotions": _hub(
        HubSource(
            "google-research-datasets/go_emotions", "simplified", "add492243ff905527e67aeb8b80c082af02207c3"
        ),
        _Columns(("text",), "labels", "multilabel"),
        "Apache-2.0",
        "Demszky et al. 2020, GoEmotions: A Dataset of Fine-Grained Emotions",
    ),
    **{
        f"tweets/{name}": _hub(source, TEXT, TWEET_TERMS, TWEET_EVAL)
        for name, source in TWEET_SOURCES.items()
    },
}
