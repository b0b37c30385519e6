"""The synonym table says what WordNet says: words of one sense that a reader takes alike, never opposites."""

import gzip
from pathlib import Path

import pytest

from tools.synonyms import pack, plural, read_synsets, read_uses, synonyms

DATA = {
    "noun": [
        "00000001 06 n 02 movie 0 film 0 000 | a story in moving pictures",
        "00000002 06 n 01 film 0 000 | a thin layer",
        "00000003 06 n 02 crud 0 filth 0 000 | (slang) dirt",
        "00000004 06 n 02 woman 0 lady 0 000 | a grown female",
    ],
    "verb": ["00000005 30 v 02 look 0 seem 0 000 | give an impression"],
    "adj": [
        "00000006 00 a 02 hot 0 warm 0 001 ! 00000007 a 0101 | of high temperature",
        "00000007 00 a 02 cold 0 warm(p) 0 001 ! 00000006 a 0101 | of low temperature",
        "00000008 00 s 02 big 0 humongous 0 000 | large",
    ],
    "adv": ["00000009 02 r 02 not 0 non 0 000 | negation"],
}
SENSES = [
    *("movie%1:06:00:: 00000001 1 20", "film%1:06:00:: 00000001 1 10", "film%1:06:01:: 00000002 2 1"),
    *("crud%1:06:00:: 00000003 1 0", "filth%1:06:00:: 00000003 1 0"),
    *("woman%1:06:00:: 00000004 1 9", "lady%1:06:00:: 00000004 1 5"),
    *("look%2:30:00:: 00000005 1 9", "seem%2:30:00:: 00000005 1 8"),
    *("hot%3:00:00:: 00000006 1 5", "warm%3:00:00:: 00000006 1 5", "warm%3:00:01:: 00000007 2 5"),
    *("cold%3:00:00:: 00000007 1 5", "big%5:00:00:: 00000008 1 90", "humongous%5:00:00:: 00000008 1 0"),
    *("not%4:02:00:: 00000009 1 9", "non%4:02:00:: 00000009 1 9"),
]


@pytest.fixture
def table(tmp_path: Path) -> dict[str, list[str]]:
    for part, lines in DATA.items():
        (tmp_path / f"data.{part}").write_text("  1 licence\n" + "".join(line + "\n" for line in lines))
    (tmp_path / "index.sense").write_text("".join(line + "\n" for line in SENSES))
    return synonyms(read_synsets(tmp_path), read_uses(tmp_path))


def test_words_of_one_sense_are_synonyms_and_so_are_their_plurals(table: dict[str, list[str]]) -> None:
    assert table["movie"] == ["film"]
    assert table["film"] == ["movie"]
    assert table["movies"] == ["films"]
    assert table["look"] == ["seem"]
    assert "looks" not in table


def test_opposites_insults_negations_and_rare_words_are_left_out(table: dict[str, list[str]]) -> None:
    assert not {"hot", "cold", "warm", "crud", "filth", "not", "non"} & set(table)
    assert "big" not in table
    assert table["humongous"] == ["big"]


def test_an_irregular_plural_is_not_made_up(table: dict[str, list[str]]) -> None:
    assert table["woman"] == ["lady"]
    assert not {"womans", "ladies"} & set(table)
    assert [plural(noun) for noun in ("story", "boy", "wish", "film")] == [
        "stories",
        "boys",
        "wishes",
        "films",
    ]


def test_the_same_words_are_packed_into_the_same_bytes() -> None:
    packed = pack({"movie": ["film", "pic"]})
    assert packed == pack({"movie": ["film", "pic"]})
    assert gzip.decompress(packed) == b"movie\tfilm\tpic\n"
