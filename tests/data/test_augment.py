"""EDA changes a few words and nothing else, whatever the text, and only by the generator that it is given."""

import random
import time
import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polytask.data.augment import (
    NEGATIONS,
    SYNONYMS,
    Rates,
    augment,
    augment_text,
    load_synonyms,
    split,
)

ONLY = {
    "synonyms": Rates(insert=0, swap=0, delete=0),
    "insert": Rates(synonyms=0, swap=0, delete=0),
    "swap": Rates(synonyms=0, insert=0, delete=0),
    "delete": Rates(synonyms=0, insert=0, swap=0),
}
TEXT = "This movie was not quickly forgotten by 3 of my students ; it 's a (funny) story ."
SEEDS = range(60)


def copies(text: str, operation: str, seeds: range = SEEDS) -> list[str]:
    found = [augment_text(text, ONLY[operation], np.random.default_rng(seed)) for seed in seeds]
    return [copy for copy in found if copy is not None]


def letters(text: str) -> Counter[str]:
    return Counter(text)


@settings(max_examples=1000, deadline=None)
@given(st.text(max_size=200), st.integers(0, 2**32))
def test_no_text_makes_it_fail_or_comes_out_empty(text: str, seed: int) -> None:
    copy = augment_text(text, Rates(), np.random.default_rng(seed))
    if copy is not None:
        assert copy != text
        assert copy.strip()


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["good", "film", "movie", "not", "n't", ",", "12", "É", "e\u0301a", "数学", "🙂", "it's"]
        )
    ),
    st.sampled_from([" ", "  ", "\t", "\u00a0", "\n"]),
    st.integers(0, 999),
)
def test_words_with_accents_signs_and_other_writing_come_through(
    words: list[str], blank: str, seed: int
) -> None:
    text = blank.join(words)
    copy = augment_text(text, Rates(), np.random.default_rng(seed))
    if copy is not None:
        kept = Counter(word for word in words if word in ("not", "n't", ",", "12", "🙂"))
        assert kept <= Counter(copy.split())
        assert all(not unicodedata.combining(word[0]) for word in copy.split())


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=80))
def test_a_text_is_its_pieces(text: str) -> None:
    assert "".join(split(text).pieces) == text


@pytest.mark.parametrize("text", ["", " ", "...", "1984", "not", "🙂", "\ud800", "数学"])
def test_what_has_no_word_to_change_is_left_alone(text: str) -> None:
    assert augment_text(text, Rates(), np.random.default_rng(1)) is None


def test_a_synonym_takes_the_place_and_the_case_of_its_word() -> None:
    found = set(copies("Movies end .", "synonyms"))
    assert "Films end ." in found
    assert {"Films", "Movies"} >= {copy.split()[0] for copy in found}
    assert "FILMS END !" in set(copies("MOVIES END !", "synonyms"))


def test_names_numbers_and_negations_stay() -> None:
    for operation in ONLY:
        for copy in copies(TEXT, operation):
            assert "not" in copy.split()
            assert "3" in copy.split()
            assert "'s" in copy.split()
            assert copy.index("not") > 0
    assert not copies("my friend Story", "synonyms")


def test_behind_an_article_only_what_goes_with_it_is_put() -> None:
    vowels = {
        word for word, others in load_synonyms().items() if all(other[0] in "aeiou" for other in others)
    }
    word = min(word for word in vowels if word[0] == "b")
    assert copies(f"that {word} !", "synonyms")
    assert not copies(f"a {word} !", "synonyms")
    assert copies(f"an {word} !", "synonyms") == []
    assert copies("an actress , a movie", "synonyms")


def test_swapping_keeps_every_letter_and_blank() -> None:
    for copy in copies(TEXT, "swap"):
        assert letters(copy) == letters(TEXT)


def test_deleting_takes_one_word_in_ten_and_one_blank_with_it() -> None:
    for copy in copies(TEXT, "delete"):
        assert len(copy.split()) in (len(TEXT.split()) - 1, len(TEXT.split()) - 2, len(TEXT.split()))
        assert "  " not in copy
        assert [sign for sign in copy if not sign.isalnum() and sign != " "] == list(";'().")


def test_nothing_is_deleted_from_a_short_text_and_never_all_of_a_longer_one() -> None:
    assert copies("it 's a painful film", "delete")
    assert copies("it 's painful .", "delete") == []
    everything = Rates(synonyms=0, insert=0, swap=0, delete=1)
    for seed in SEEDS:
        left = augment_text("one word stays of these", everything, np.random.default_rng(seed))
        assert left is not None
        assert len(left.split()) == 1


def test_inserting_adds_a_synonym_and_takes_nothing() -> None:
    for copy in copies(TEXT, "insert"):
        assert letters(TEXT) <= letters(copy)
        assert len(copy.split()) == len(TEXT.split()) + 2


def test_the_number_of_changed_words_follows_the_rate() -> None:
    text = " ".join(["movie"] * 50)
    random_ = np.random.default_rng(1)
    for rate, expected in ((0.1, 5), (0.5, 25), (0.001, 1), (1.0, 50)):
        copy = augment_text(text, Rates(synonyms=rate, insert=0, swap=0, delete=0), random_)
        assert copy is not None
        assert copy.split().count("film") == expected


def test_of_a_pair_one_sentence_changes() -> None:
    pair = ("a good movie", "a fine story")
    changed = Counter[tuple[bool, bool]]()
    for seed in SEEDS:
        copy = augment(pair, Rates(), np.random.default_rng(seed))
        assert copy is not None
        changed[copy[0] != pair[0], copy[1] != pair[1]] += 1
    assert set(changed) == {(True, False), (False, True)}
    assert augment(("1", "two words"), Rates(), np.random.default_rng(1)) is not None
    assert augment(("1", "2"), Rates(), np.random.default_rng(1)) is None


def test_the_same_generator_gives_the_same_copies_and_no_other_one_is_touched() -> None:
    random.seed(5)
    np.random.seed(5)
    global_states = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
    one, two = np.random.default_rng(9), np.random.default_rng(9)
    assert [augment_text(TEXT, Rates(), one) for _ in range(20)] == [
        augment_text(TEXT, Rates(), two) for _ in range(20)
    ]
    assert random.getstate() == global_states[0]
    assert np.random.get_state()[1].tolist() == global_states[1]  # type: ignore[index]


def test_ten_thousand_rows_take_less_than_five_seconds() -> None:
    source = random.Random(1)
    words = source.sample(sorted(load_synonyms()), 2000) + ["the", "of", "not", ",", "."] * 200
    rows = [" ".join(source.choices(words, k=20)) for _ in range(10_000)]
    generator = np.random.default_rng(1)
    started = time.process_time()
    assert all(augment((row,), Rates(), generator) is not None for row in rows)
    assert time.process_time() - started < 5


def test_the_shipped_table_is_small_plain_and_without_negations_or_opposites() -> None:
    table = load_synonyms()
    assert SYNONYMS.stat().st_size < 700_000
    assert len(table) > 40_000
    assert SYNONYMS.with_name("synonyms.LICENCE.txt").read_text().count("Princeton University") > 2
    for word, others in table.items():
        assert word == word.lower()
        assert others
        assert word not in others
        assert len(set(others)) == len(others)
    assert not NEGATIONS & set(table)
    assert not NEGATIONS & {other for others in table.values() for other in others}
    assert "film" in table["movie"]
    assert "films" in table["movies"]
