"""The token table: what goes in comes out, from memory and from disk, and damage is noticed."""

import json
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from small_bert import WORDS, write_bert

from polytask.data import tokens
from polytask.data.rows import Label, Row
from polytask.data.tokenizer import Ids, Tokenizer
from polytask.data.tokens import TokenTable, table_from_texts, text_print, write_table
from polytask.recipe_tasks import Kind

PAIRS = [("good film", "a bad film."), ("the films", "\0"), ("unheard", "1 1 1")]


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return Tokenizer.load(write_bert(tmp_path))


def pair_rows() -> list[Row]:
    return [Row(line * 3, f"id-é{line}", pair, str(line % 2)) for line, pair in enumerate(PAIRS)]


def opened(folder: Path) -> TokenTable:
    table = TokenTable.open(folder)
    assert table is not None
    return table


def words_of(table: TokenTable, row: int, text: int) -> list[str]:
    return [WORDS[place] for place in table.text_ids(row, text)]


@pytest.mark.parametrize("chunk", [1, 2, 4096])
def test_a_table_holds_what_was_written_however_it_was_chunked(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(tokens, "ROWS_PER_CHUNK", chunk)
    write_table(tmp_path / "table", pair_rows(), tokenizer, "classification", ("0", "1"))
    table = opened(tmp_path / "table")
    assert (table.num_rows, table.texts) == (3, 2)
    assert words_of(table, 0, 1) == ["a", "bad", "film", "."]
    assert words_of(table, 1, 0) == ["the", "film", "##s"]
    assert words_of(table, 2, 0) == ["[UNK]"]
    assert table.lengths().tolist() == [[2, 4], [3, 0], [1, 3]]
    assert table.lengths().dtype == np.int32
    assert table.text_ids(0, 0).dtype == np.uint16
    assert table.lines.tolist() == [0, 3, 6]
    assert [table.row_id(row) for row in range(3)] == ["id-é0", "id-é1", "id-é2"]
    assert table.targets is not None
    assert table.targets.tolist() == [0, 1, 0]
    assert table.targets.dtype == np.int64


def test_a_table_in_memory_equals_one_on_disk(tmp_path: Path, tokenizer: Tokenizer) -> None:
    write_table(tmp_path / "table", pair_rows(), tokenizer, None, ())
    disk, memory = opened(tmp_path / "table"), table_from_texts(PAIRS, tokenizer)
    assert memory.targets is None
    assert disk.targets is None
    assert (memory.lengths() == disk.lengths()).all()
    assert (memory.fingerprints == disk.fingerprints).all()
    for row in range(3):
        assert memory.row_id(row) == str(row)
        for text in range(2):
            assert (memory.text_ids(row, text) == disk.text_ids(row, text)).all()


@pytest.mark.parametrize(
    ("kind", "labels", "given", "stored", "dtype"),
    [
        ("regression", (), [3.8, -1.5], [3.8, -1.5], np.float32),
        ("multilabel", ("x", "y", "z"), [("z", "x"), ()], [[1, 0, 1], [0, 0, 0]], np.uint8),
        ("classification", ("yes", "no"), ["no", "yes"], [1, 0], np.int64),
    ],
)
def test_targets_are_stored_as_their_kind_needs(
    tmp_path: Path,
    tokenizer: Tokenizer,
    kind: Kind,
    labels: tuple[str, ...],
    given: list[Label],
    stored: object,
    dtype: type,
) -> None:
    rows = [Row(n, str(n), ("good",), label) for n, label in enumerate(given)]
    write_table(tmp_path / "table", rows, tokenizer, kind, labels)
    targets = opened(tmp_path / "table").targets
    assert targets is not None
    assert targets.dtype == dtype
    np.testing.assert_allclose(targets, np.array(stored), rtol=1e-6)


def test_a_table_cannot_be_written_to(tmp_path: Path, tokenizer: Tokenizer) -> None:
    write_table(tmp_path / "table", pair_rows(), tokenizer, None, ())
    with pytest.raises(ValueError, match="read-only"):
        opened(tmp_path / "table").text_ids(0, 0)[0] = 1


@pytest.mark.parametrize("name", ["ids", "ends", "lines", "names", "fingerprints", "targets", "meta.json"])
def test_a_damaged_column_is_noticed(tmp_path: Path, tokenizer: Tokenizer, name: str) -> None:
    folder = tmp_path / "table"
    write_table(folder, pair_rows(), tokenizer, "classification", ("0", "1"))
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[:-1])
    assert TokenTable.open(folder) is None
    (folder / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert TokenTable.open(folder) is None
    (folder / name).unlink()
    assert TokenTable.open(folder) is None
    (folder / name).write_bytes(whole)
    assert TokenTable.open(folder) is not None


def test_meta_that_points_elsewhere_is_not_followed(tmp_path: Path, tokenizer: Tokenizer) -> None:
    write_table(tmp_path / "table", pair_rows(), tokenizer, None, ())
    meta = json.loads((tmp_path / "table" / "meta.json").read_text())
    (tmp_path / "table" / "ids").rename(tmp_path / "elsewhere")
    meta["columns"]["../elsewhere"] = meta["columns"].pop("ids")
    (tmp_path / "table" / "meta.json").write_text(json.dumps(meta))
    assert TokenTable.open(tmp_path / "table") is None


def test_an_interrupted_build_leaves_nothing_under_the_tables_name(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    def rows() -> Iterator[Row]:
        yield from pair_rows()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_table(tmp_path / "tables" / "table", rows(), tokenizer, None, ())
    assert list((tmp_path / "tables").iterdir()) == []


def test_a_table_takes_the_place_of_a_damaged_one(tmp_path: Path, tokenizer: Tokenizer) -> None:
    folder = tmp_path / "tables" / "table"
    folder.mkdir(parents=True)
    (folder / "ids").write_bytes(b"half")
    write_table(folder, pair_rows(), tokenizer, None, ())
    assert opened(folder).num_rows == 3
    assert [item.name for item in folder.parent.iterdir()] == ["table"]


def test_prints_of_texts_ignore_case_and_blanks_and_keep_the_order_of_a_pair() -> None:
    assert text_print(("Good  film ",)) == text_print(("good film",))
    assert text_print(("a", "b")) != text_print(("b", "a"))
    assert text_print(("a b", "c")) != text_print(("a", "b c"))


def test_many_rows_are_tokenised_in_bounded_memory(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "ROWS_PER_CHUNK", 256)

    def peak(count: int) -> int:
        rows = (Row(n, str(n), (f"{n} good film", f"{n} bad film"), None) for n in range(count))
        tracemalloc.start()
        write_table(tmp_path / f"table-{count}", rows, tokenizer, None, ())
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert opened(tmp_path / f"table-{count}").num_rows == count
        return size

    peak(512)
    assert peak(8_192) < 1.3 * peak(1_024)


def test_long_texts_make_smaller_chunks(
    tmp_path: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "CHARACTERS_PER_CHUNK", 20)
    sizes: list[int] = []
    encode = Tokenizer.encode

    def counted(self: Tokenizer, texts: Sequence[str]) -> list[Ids]:
        sizes.append(len(texts))
        return encode(self, texts)

    monkeypatch.setattr(Tokenizer, "encode", counted)
    write_table(tmp_path / "table", pair_rows() * 3, tokenizer, None, ())
    assert sum(sizes) == 18
    assert max(sizes) <= 6
