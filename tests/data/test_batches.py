"""Every row comes once before any comes again, and rows go to the encoder as Hugging Face would put them."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_bert import write_bert
from tokenizers import Tokenizer as RustTokenizer

from polytask.data.batches import BUCKET_BATCHES, BatchStream, Collator
from polytask.data.padding import budget_batches
from polytask.data.tokenizer import Tokenizer, cut_longest_first
from polytask.data.tokens import TokenTable, table_from_texts
from polytask.tasks import Task

SINGLE = Task("single", "classification", 1, ("x", "y"), None, "accuracy")
JOINED = Task("joined", "classification", 2, ("x", "y"), None, "accuracy")
SEPARATE = Task("separate", "classification", 2, ("x", "y"), None, "accuracy", pairs="separate")
TEXTS = ["a good film", "bad", "the the the the the the the the the the", "goods . a bad films", "1", "zzz ."]
PAIRS = [(first, second) for first in TEXTS for second in TEXTS]
SIZES = st.tuples(st.integers(1, 400), st.integers(1, 7), st.integers(0, 2**63 - 1))


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return Tokenizer.load(write_bert(tmp_path))


def stream(rows: int, size: int, seed: int, task: str = "sst") -> BatchStream:
    lengths = np.random.default_rng(rows).integers(1, 60, rows)
    return BatchStream(task, lengths, size, seed)


@given(SIZES)
def test_every_row_comes_once_in_each_epoch(sizes: tuple[int, int, int]) -> None:
    batches = stream(*sizes)
    orders = []
    for _ in range(3):
        epoch = [batches.next() for _ in range(batches.batches_per_epoch)]
        assert max(map(len, epoch)) <= sizes[1]
        order = np.concatenate(epoch)
        assert sorted(order) == list(range(sizes[0]))
        orders.append(tuple(order))
    if sizes[0] >= 20:
        assert len(set(orders)) == 3  # each epoch has an order of its own


@given(SIZES, st.integers(0, 200))
def test_a_stream_goes_on_from_its_position_as_if_it_had_never_stopped(
    sizes: tuple[int, int, int], position: int
) -> None:
    whole, resumed = stream(*sizes), stream(*sizes)
    for _ in range(position):
        whole.next()
    resumed.position = position
    for _ in range(5):
        assert whole.next().tolist() == resumed.next().tolist()


def test_the_order_is_the_seeds_and_the_tasks_own() -> None:
    def order(seed: int, task: str) -> list[int]:
        batches = stream(100, 4, seed, task)
        return np.concatenate([batches.next() for _ in range(25)]).tolist()

    assert order(1, "sst") == order(1, "sst")
    assert order(1, "sst") != order(2, "sst")
    assert order(1, "sst") != order(1, "sts")


def test_batches_hold_rows_of_like_length() -> None:
    rows, size = 8 * BUCKET_BATCHES, 8
    lengths = np.random.default_rng(0).integers(1, 100, rows)
    batches = BatchStream("a", lengths, size, 1)
    spreads = [int(np.ptp(lengths[batches.next()])) for _ in range(batches.batches_per_epoch)]
    assert max(spreads) <= 20
    # the batches themselves come in no order of length
    firsts = [int(lengths[batches.next()].max()) for _ in range(batches.batches_per_epoch)]
    assert firsts != sorted(firsts)


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 200))
def test_budget_batches_hold_every_row_once_and_keep_to_the_budget(lengths: list[int], budget: int) -> None:
    counts = np.array(lengths, dtype=np.int64)
    batches = list(budget_batches(counts, budget))
    assert Counter(int(row) for rows in batches for row in rows) == Counter(range(len(lengths)))
    for rows in batches:
        assert len(rows) == 1 or len(rows) * int(counts[rows].max()) <= budget


def rust(tokenizer: Tokenizer, folder: Path) -> RustTokenizer:
    tokenizer.save(folder)
    return RustTokenizer.from_file(str(folder / "tokenizer.json"))


def rows_of(collator: Collator, task: Task, table: TokenTable) -> list[tuple[list[int], list[int]]]:
    """Each row's ids and segments as the encoder gets them, padding cut off."""
    batch = collator.batch(task, table, range(table.num_rows))
    segments = batch.tokens.segments
    segments = torch.zeros_like(batch.tokens.ids) if segments is None else segments
    lengths = batch.tokens.lengths.tolist()
    assert batch.num_tokens == sum(lengths)
    for ids, second, length in zip(batch.tokens.ids, segments, lengths, strict=True):
        assert (ids[length:] == 0).all()
        assert (second[length:] == 0).all()
    return [
        (ids[:length].tolist(), second[:length].tolist())
        for ids, second, length in zip(batch.tokens.ids, segments, lengths, strict=True)
    ]


@pytest.mark.parametrize("limit", [4, 5, 8, 64])
def test_a_sentence_is_encoded_and_cut_as_hugging_face_does(
    tokenizer: Tokenizer, tmp_path: Path, limit: int
) -> None:
    reference = rust(tokenizer, tmp_path)
    reference.enable_truncation(limit)
    table = table_from_texts([(text,) for text in TEXTS], tokenizer)
    collator = Collator(tokenizer, limit)
    for text, (ids, segments), length in zip(
        TEXTS, rows_of(collator, SINGLE, table), collator.lengths(SINGLE, table), strict=True
    ):
        expected = reference.encode(text)
        assert (ids, segments) == (expected.ids, expected.type_ids)
        assert len(ids) == length


@pytest.mark.parametrize("limit", [4, 5, 8, 9, 13, 64])
def test_a_pair_is_encoded_as_hugging_face_does_and_cut_by_at_most_one_token_otherwise(
    tokenizer: Tokenizer, tmp_path: Path, limit: int
) -> None:
    """Libraries break the tie of two equally long sentences differently; all keep as many tokens in all."""
    reference = rust(tokenizer, tmp_path)
    reference.enable_truncation(limit, strategy="longest_first")
    table = table_from_texts(PAIRS, tokenizer)
    collator = Collator(tokenizer, limit)
    found = rows_of(collator, JOINED, table)
    for pair, (ids, segments), length in zip(PAIRS, found, collator.lengths(JOINED, table), strict=True):
        expected = reference.encode(*pair)
        assert len(ids) == len(expected.ids) == length <= limit
        assert abs(sum(segments) - sum(expected.type_ids)) <= 1
        if sum(segments) == sum(expected.type_ids):
            assert (ids, segments) == (expected.ids, expected.type_ids)
        if sum(len(reference.encode(text, add_special_tokens=False).ids) for text in pair) + 3 <= limit:
            assert (ids, segments) == (expected.ids, expected.type_ids)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 30))
def test_the_longer_sentence_is_cut_first(first: int, second: int, room: int) -> None:
    kept_first, kept_second = cut_longest_first(first, second, room)
    assert 0 <= kept_first <= first
    assert 0 <= kept_second <= second
    assert kept_first + kept_second == min(first + second, room)
    if kept_first < first and kept_second < second:
        assert abs(kept_first - kept_second) <= 1
    elif kept_first < first:
        assert kept_first >= kept_second - 1
    elif kept_second < second:
        assert kept_second >= kept_first - 1


def test_a_separate_pair_is_two_sequences_first_sentences_first(tokenizer: Tokenizer) -> None:
    table = table_from_texts(PAIRS[3:6], tokenizer)
    collator = Collator(tokenizer, 8)
    found = rows_of(collator, SEPARATE, table)
    alone = [
        rows_of(collator, SINGLE, table_from_texts([(text,)], tokenizer))[0]
        for part in (0, 1)
        for text in (pair[part] for pair in PAIRS[3:6])
    ]
    assert found == alone
    assert collator.batch(SEPARATE, table, [0, 2]).slices == {"separate": slice(0, 4)}


def test_a_batch_holds_the_rows_asked_for_in_their_order(tokenizer: Tokenizer) -> None:
    table = table_from_texts([(text,) for text in TEXTS], tokenizer)
    collator = Collator(tokenizer, 16)
    whole = rows_of(collator, SINGLE, table)
    batch = collator.batch(SINGLE, table, [4, 0, 2])
    for place, row in enumerate((4, 0, 2)):
        assert batch.tokens.ids[place, : int(batch.tokens.lengths[place])].tolist() == whole[row][0]
    assert batch.targets == {}


def test_padding_is_the_tokenizers_own_token(tokenizer: Tokenizer) -> None:
    source = json.loads(tokenizer._source)
    source["padding"] = {
        **dict.fromkeys(("strategy", "direction", "pad_to_multiple_of", "pad_type_id", "pad_token")),
        "strategy": "BatchLongest",
        "direction": "Right",
        "pad_id": 4,
        "pad_type_id": 0,
        "pad_token": "[MASK]",
    }
    other = Tokenizer(json.dumps(source).encode())
    table = table_from_texts([("a",), ("a good film",)], other)
    batch = Collator(other, 16).batch(SINGLE, table, [0, 1])
    assert batch.tokens.ids[0, int(batch.tokens.lengths[0]) :].tolist() == [4, 4]
