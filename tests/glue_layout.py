"""GLUE's own folders with a few made-up rows each: its file names, headers and oddities."""

import random
from pathlib import Path

GOOD, BAD, NOUNS = ["good", "fine", "great"], ["bad", "poor", "awful"], ["film", "song", "book"]
FILLERS = list("abcdefghij")
SIZES = {"train": 24, "dev": 12, "test": 7}

# Folder -> labelled header, test header, the words of its labels; `{a}`, `{b}` are the sentences.
LAYOUTS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "SST-2": ("{a}\t{label}|sentence\tlabel", "{n}\t{a}|index\tsentence", ("0", "1")),
    "MRPC": (
        "{label}\t1\t2\t{a}\t{b}|Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        "{n}\t1\t2\t{a}\t{b}|index\t#1 ID\t#2 ID\t#1 String\t#2 String",
        ("0", "1"),
    ),
    "QQP": (
        "{n}\t1\t2\t{a}\t{b}\t{label}|id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        "{n}\t{a}\t{b}|id\tquestion1\tquestion2",
        ("0", "1"),
    ),
    "STS-B": (
        "{n}\tg\tf\t2012\t{n}\ts\ts\t{a}\t{b}\t{label}"
        "|index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        "{n}\tg\tf\t2012\t{n}\ts\ts\t{a}\t{b}"
        "|index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2",
        ("0.500", "4.500"),
    ),
    "QNLI": (
        "{n}\t{a}\t{b}\t{label}|index\tquestion\tsentence\tlabel",
        "{n}\t{a}\t{b}|index\tquestion\tsentence",
        ("not_entailment", "entailment"),
    ),
    "RTE": (
        "{n}\t{a}\t{b}\t{label}|index\tsentence1\tsentence2\tlabel",
        "{n}\t{a}\t{b}|index\tsentence1\tsentence2",
        ("not_entailment", "entailment"),
    ),
    "WNLI": (
        "{n}\t{a}\t{b}\t{label}|index\tsentence1\tsentence2\tlabel",
        "{n}\t{a}\t{b}|index\tsentence1\tsentence2",
        ("0", "1"),
    ),
}
MNLI_WORDS = ("contradiction", "entailment", "neutral")


def write_glue(folder: Path) -> Path:
    """All folders of GLUE, with headerless CoLA and MNLI's two dev and test files."""
    source = random.Random(3)
    for name, (labelled, test, words) in LAYOUTS.items():
        for split, size in SIZES.items():
            line, header = (test if split == "test" else labelled).split("|")
            _write(
                folder / name / f"{split}.tsv", header, line, [_row(n, words, source) for n in range(size)]
            )
    for split in ("train", "dev"):
        rows = [_row(n, ("0", "1"), source) for n in range(SIZES[split])]
        _write(folder / "CoLA" / f"{split}.tsv", None, "gj04\t{label}\t\t{a}", rows)
    rows = [_row(n, ("0", "1"), source) for n in range(SIZES["test"])]
    _write(folder / "CoLA" / "test.tsv", "index\tsentence", "{n}\t{a}", rows)
    _write_mnli(folder, source)
    return folder


def _write_mnli(folder: Path, source: random.Random) -> None:
    parses = "sentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
    begin, line = (
        f"index\tpromptID\tpairID\tgenre\t{parses}\tsentence1\tsentence2",
        "{n}\t1\t1e\tg\tp\tp\tp\tp\t{a}\t{b}",
    )
    five = "\t".join(f"label{number}" for number in range(1, 6))
    files = {
        "train": (f"{begin}\tlabel1\tgold_label", f"{line}\t{{label}}\t{{label}}"),
        "dev_matched": (f"{begin}\t{five}\tgold_label", line + "\t{label}" * 6),
        "dev_mismatched": (f"{begin}\t{five}\tgold_label", line + "\t{label}" * 6),
        "test_matched": (begin, line),
        "test_mismatched": (begin, line),
    }
    for name, (header, form) in files.items():
        rows = [_row(n, MNLI_WORDS, source) for n in range(SIZES[name.split("_")[0]])]
        _write(folder / "MNLI" / f"{name}.tsv", header, form, rows)
    rows = [_row(n, MNLI_WORDS, source) for n in range(5)]
    _write(folder / "diagnostic" / "diagnostic.tsv", "index\tsentence1\tsentence2", "{n}\t{a}\t{b}", rows)


def _row(number: int, words: tuple[str, ...], source: random.Random) -> dict[str, str]:
    label = number % len(words)
    noun, filler = source.choice(NOUNS), " ".join(source.choices(FILLERS, k=source.randint(2, 6)))
    first = f'the {noun} is {source.choice(GOOD if label else BAD)} "{filler}'  # an open quote, as GLUE has
    second = f"the {noun} is {source.choice(GOOD if label == 1 else BAD)} ."
    return {"n": str(number), "a": first, "b": second, "label": words[label]}


def _write(path: Path, header: str | None, form: str, rows: list[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [*([header] if header else []), *(form.format(**row) for row in rows)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
