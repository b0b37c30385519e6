"""Easy Data Augmentation (Wei & Zou 2019): a text again, a few words replaced, added, swapped or dropped."""

import gzip
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np

SYNONYMS = Path(__file__).parent / "synonyms.tsv.gz"  # made by tools/synonyms.py
# A text says something else without these words, or with them in another place: they stay as they are.
NEGATIONS = frozenset(
    ("no", "not", "non", "nor", "never", "none", "nothing", "nobody", "nowhere", "neither", "without")
) | frozenset(
    ("cannot", "hardly", "barely", "scarcely", "seldom", "rarely", "little", "few", "less", "least", "except")
)
TOKEN = re.compile(r"\S+")
CORE = re.compile(r"\w(?:.*\w)?")  # of a token: what is between the punctuation around it
AROUND = frozenset(
    "\"'`´“”„‘’‚«»‹›().,;:!?¡¿…*、。，；：！？「」『』（）"
)  # punctuation that a word may have around it
INSIDE = frozenset("'’-")
CLITIC = re.compile(r"['’](s|d|m|ll|re|ve)", re.IGNORECASE)  # the end of another word, cut off by a tokenizer

SHORT = 5  # words: of a text with fewer, every word may be the one that decides, and none is deleted

Random = np.random.Generator
Item = TypeVar("Item")
Synonyms = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Rates:
    """The share of a text's words that each operation changes; 0 leaves an operation out."""

    synonyms: float = 0.1
    insert: float = 0.1
    swap: float = 0.1
    delete: float = 0.1


@cache
def load_synonyms() -> Synonyms:
    """The shipped table: a word in lower case -> its synonyms."""
    with gzip.open(SYNONYMS, "rt", encoding="utf-8") as file:
        return {word: others for word, *others in (line.rstrip("\n").split("\t") for line in file)}


def augment(texts: tuple[str, ...], rates: Rates, random: Random) -> tuple[str, ...] | None:
    """A row's texts with one of them changed, or None where none can be.

    Of a pair only one sentence changes, so that the two do not move apart twice.
    """
    for place in random.permutation(len(texts)):
        changed = augment_text(texts[place], rates, random)
        if changed is not None:
            return (*texts[:place], changed, *texts[place + 1 :])
    return None


def augment_text(text: str, rates: Rates, random: Random) -> str | None:
    """The text changed by one operation, drawn at random of those that can change it; None where none can.

    All else stays as it is: blanks, punctuation, case, words with digits or signs in them, negations. A text
    with a word never loses its last one.
    """
    words = split(text)
    for place in random.permutation(len(OPERATIONS)):
        name, operation = OPERATIONS[place]
        rate = getattr(rates, name)
        if rate == 0:
            continue
        changed = operation(words, max(1, round(rate * words.num_words)), random)
        if changed is not None and changed != text:
            return changed
    return None


@dataclass(frozen=True)
class Words:
    """A text in pieces: the words that may change at the odd places, what lies between at the even ones."""

    pieces: tuple[str, ...]
    num_words: int  # with those that may not change
    shouted: bool  # whether there are only capitals

    @property
    def places(self) -> range:
        return range(1, len(self.pieces), 2)


def split(text: str) -> Words:
    """Find the words of a text; in writing without blanks a run of letters is one."""
    pieces: list[str] = []
    done = num_words = 0
    for token in TOKEN.finditer(text):
        found = CORE.search(token[0])
        if found is None:
            continue
        num_words += 1
        start, end = token.start() + found.start(), token.start() + found.end()
        while end < token.end() and _is_mark(text[end]):  # an accent belongs to its letter
            end += 1
        if _may_change(token[0], text[start:end]):
            pieces += [text[done:start], text[start:end]]
            done = end
    return Words((*pieces, text[done:]), num_words, text.isupper())


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M"


def _may_change(token: str, core: str) -> bool:
    folded = core.lower()
    if folded in NEGATIONS or folded.endswith(("n't", "n’t")) or CLITIC.fullmatch(token):
        return False
    if core.isalpha() and len(token) == len(core):
        return True
    start = token.index(core)
    return all(
        letter.isalpha() or letter in INSIDE or _is_mark(letter) for letter in core
    ) and AROUND.issuperset(token[:start] + token[start + len(core) :])


def _replace(words: Words, count: int, random: Random) -> str | None:
    """Synonyms in the place of `count` words."""
    pieces = list(words.pieces)
    known = [place for place in words.places if _candidates(words, place)]
    for place in _pick(known, count, random):
        pieces[place] = _in_case_of(words.pieces[place], _one(_candidates(words, place), random))
    return "".join(pieces)


def _insert(words: Words, count: int, random: Random) -> str | None:
    """Synonyms of `count` words, each behind some word."""
    pieces = list(words.pieces)
    known = [place for place in words.places if _candidates(words, place)]
    behind = [place for place in words.places if pieces[place].lower() not in ("a", "an")]
    if not known or not behind:
        return None
    meant, anchors = _pick(known, count, random), _pick(behind, count, random)
    for place, anchor in zip(meant, anchors, strict=False):
        pieces[anchor] += " " + _one(_candidates(words, place), random)
    return "".join(pieces)


def _swap(words: Words, count: int, random: Random) -> str | None:
    """`count` times two words in each other's places; each keeps its own letters."""
    pieces = list(words.pieces)
    if len(words.places) < 2:
        return None
    for _ in range(count):
        first, second = random.choice(len(words.places), 2, replace=False) * 2 + 1
        pieces[first], pieces[second] = pieces[second], pieces[first]
    return "".join(pieces)


def _delete(words: Words, count: int, random: Random) -> str | None:
    """The text without `count` words, unless it is short; one is always left."""
    if words.num_words < SHORT:
        return None
    pieces = list(words.pieces)
    for place in _pick(words.places, min(count, words.num_words - 1), random):
        pieces[place] = ""
        before = next((piece for piece in reversed(pieces[:place]) if piece), " ")
        if before[-1].isspace() and pieces[place + 1][:1].isspace():  # or two blanks would meet
            pieces[place + 1] = pieces[place + 1][1:]
    return "".join(pieces)


OPERATIONS: tuple[tuple[str, Callable[[Words, int, Random], str | None]], ...] = (
    ("synonyms", _replace),
    ("insert", _insert),
    ("swap", _swap),
    ("delete", _delete),
)


def _candidates(words: Words, place: int) -> Sequence[str]:
    """What may stand for a word: nothing for a name, and behind `a` or `an` only what goes with it."""
    word = words.pieces[place]
    if not (word.islower() or place == 1 or words.shouted):
        return ()
    others = load_synonyms().get(word.lower(), ())
    if place > 2 and words.pieces[place - 2].lower() in ("a", "an"):
        return [other for other in others if (other[0] in "aeiou") == (word[0].lower() in "aeiou")]
    return others


def _in_case_of(word: str, other: str) -> str:
    if word.isupper() and len(word) > 1:
        return other.upper()
    return other.capitalize() if word[0].isupper() else other


def _pick(places: Sequence[int], count: int, random: Random) -> list[int]:
    """At most `count` of the places, each once."""
    return [places[number] for number in random.permutation(len(places))[: max(0, count)]]


def _one(options: Sequence[Item], random: Random) -> Item:
    return options[int(random.integers(len(options)))]
