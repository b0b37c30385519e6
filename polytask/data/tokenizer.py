"""Texts to token ids: the tokenizer of an encoder, and the specials it puts around a sentence or a pair."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from polytask.errors import ModelError

MAX_TOKENS = 8192  # kept of a text; most encoders end at 512 positions, ModernBERT at 8192
MAX_FILE = 200_000_000  # bytes
SAMPLES = ("a", "the", "1", ".")  # some small vocabularies know only some of them
PAD_TOKENS = ("[PAD]", "<pad>")
BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

Ids = npt.NDArray[np.int32]


@final
class Tokenizer:
    """The Rust tokenizer of an encoder folder, without the padding and truncation that its file may bake in.

    A single sentence is `prefix + a + suffix`, a pair `prefix + a + middle + b + suffix`. Segment ids are 0,
    and `second_segment` for `b` and the suffix after it.
    """

    def __init__(self, source: bytes, pad_token: str | None = None) -> None:
        self._source = source
        self._rust = _load_rust(source)
        padding = self._rust.padding
        self._rust.no_padding()
        self._rust.no_truncation()
        self.fingerprint = hashlib.sha256(source).hexdigest()
        # ids may have gaps, and added tokens may lie past the vocabulary's size
        self.vocab_size: int = max(self._rust.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        self.prefix, self.middle, self.suffix, self.second_segment = _template(self._rust)
        self.pad_id = _pad_id(self._rust, padding, pad_token)

    @classmethod
    def load(cls, folder: Path) -> "Tokenizer":
        """The tokenizer of a folder with a `tokenizer.json`, or with the `vocab.txt` of an old BERT."""
        config = _read_json(folder / "tokenizer_config.json")
        path, vocabulary = folder / "tokenizer.json", folder / "vocab.txt"
        try:
            if path.is_file():
                source = _read(path)
            elif vocabulary.is_file():
                path = vocabulary
                source = _wordpiece(_read(path), config)
            else:
                raise ModelError(f"{folder}: has neither tokenizer.json nor vocab.txt.")
            pad = config.get("pad_token")
            pad = pad.get("content") if isinstance(pad, dict) else pad
            return cls(source, pad if isinstance(pad, str) else None)
        except _BadTokenizerError as error:
            raise ModelError(f"{path}: {error}.") from None

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json` as it was read, so that its fingerprint stays."""
        (folder / "tokenizer.json").write_bytes(self._source)

    def special_words(self) -> dict[str, str]:
        """The tokens that Hugging Face wants by name, as far as this tokenizer has them."""
        ids = {"pad_token": self.pad_id, "cls_token": self.prefix[0], "sep_token": self.suffix[-1]}
        words = {role: self._rust.id_to_token(number) for role, number in ids.items()}
        for role, choices in (("unk_token", ("[UNK]", "<unk>")), ("mask_token", ("[MASK]", "<mask>"))):
            words[role] = next((word for word in choices if self._rust.token_to_id(word) is not None), None)
        return {role: word for role, word in words.items() if word is not None}

    def encode(self, texts: Sequence[str], limit: int = MAX_TOKENS) -> list[Ids]:
        """The ids of each text without specials, at most `limit` of them."""
        batch = list(texts)
        try:
            encodings = self._rust.encode_batch_fast(batch, add_special_tokens=False)
        except TypeError:  # a lone surrogate, which JSON can hold and UTF-8 cannot
            encodings = self._rust.encode_batch_fast(
                [_without_surrogates(text) for text in batch], add_special_tokens=False
            )
        return [np.array(encoding.ids[:limit], dtype=np.int32) for encoding in encodings]

    def cut(self, texts: Sequence[Ids], max_length: int) -> list[Ids]:
        """The ids of one row's texts, cut so that the row has `max_length` with its specials if joined."""
        room = max_length - len(self.prefix) - len(self.suffix)
        if len(texts) == 1:
            return [texts[0][:room]]
        first, second = texts
        kept = cut_longest_first(len(first), len(second), room - len(self.middle))
        return [first[: kept[0]], second[: kept[1]]]


def cut_longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens of each sentence to keep when the longer one is cut first."""
    if first + second <= room:
        return first, second
    if first <= second:
        kept = min(first, room // 2)
        return kept, room - kept
    kept = min(second, room - room // 2)
    return room - kept, kept


class _BadTokenizerError(Exception):
    """What is wrong with a tokenizer file."""


def _without_surrogates(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            source = file.read(MAX_FILE + 1)
    except OSError as error:
        raise _BadTokenizerError(f"cannot be read ({error.strerror})") from None
    if len(source) > MAX_FILE:
        raise _BadTokenizerError(f"is larger than {MAX_FILE:,} bytes")
    return source


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        values = json.loads(_read(path))
    except (_BadTokenizerError, ValueError, RecursionError):
        raise ModelError(f"{path}: is not a JSON file, or is damaged.") from None
    if not isinstance(values, dict):
        raise ModelError(f"{path}: should hold a JSON object.")
    return values


def _load_rust(source: bytes) -> Any:
    from tokenizers import Tokenizer as RustTokenizer

    try:
        return RustTokenizer.from_str(source.decode("utf-8"))
    except UnicodeDecodeError:
        raise _BadTokenizerError("is not UTF-8") from None
    except BaseException as error:
        # The library raises bare Exception, and a Rust panic is not even one.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise _BadTokenizerError(f"is not a tokenizer, or is damaged ({str(error)[:200]})") from None


def _template(rust: Any) -> tuple[list[int], list[int], list[int], int]:
    """The specials around texts, read off a sample: before the first, between the two, after the last."""
    for sample in SAMPLES:
        single, pair = rust.encode(sample), rust.encode(sample, sample)
        places = pair.sequence_ids
        if 0 in places and 1 in places:
            break
    else:
        raise _BadTokenizerError(f"knows none of the sample texts {', '.join(SAMPLES)}")
    first, second = places.index(0), places.index(1)
    end_first = len(places) - places[::-1].index(0)
    end_second = len(places) - places[::-1].index(1)
    prefix, middle, suffix = pair.ids[:first], pair.ids[end_first:second], pair.ids[end_second:]
    if not prefix or not suffix:
        raise _BadTokenizerError("puts no special tokens around a text, as the BERT family does")
    if single.ids != prefix + pair.ids[first:end_first] + suffix or end_first > second:
        raise _BadTokenizerError("puts other special tokens around a pair than around a text")
    segment = pair.type_ids[second]
    expected = [0] * second + [segment] * (len(places) - second)
    if pair.type_ids != expected or segment not in (0, 1) or any(single.type_ids):
        raise _BadTokenizerError(f"gives a pair the segment ids {pair.type_ids}, which no BERT has")
    return prefix, middle, suffix, segment


def _pad_id(rust: Any, padding: dict[str, Any] | None, pad_token: str | None) -> int:
    if padding is not None:
        return int(padding["pad_id"])
    for token in (pad_token, *PAD_TOKENS):
        found = rust.token_to_id(token) if token is not None else None
        if found is not None:
            return int(found)
    raise _BadTokenizerError(f"has no padding token ({' or '.join(PAD_TOKENS)})")


def _wordpiece(vocabulary: bytes, config: dict[str, Any]) -> bytes:
    """The `tokenizer.json` that a BERT vocabulary stands for; lower case unless its config says otherwise."""
    from tokenizers import Tokenizer as RustTokenizer
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

    try:
        words = vocabulary.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise _BadTokenizerError("is not UTF-8") from None
    if words and not words[-1]:
        words.pop()
    ids = {word.rstrip("\r"): place for place, word in enumerate(words)}
    if missing := [token for token in BERT_SPECIALS if token not in ids]:
        raise _BadTokenizerError(f"is not the vocabulary of a BERT: it has no {missing[0]}")
    rust = RustTokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))  # noqa: S106
    rust.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=bool(config.get("tokenize_chinese_chars", True)),
        strip_accents=config.get("strip_accents"),
        lowercase=bool(config.get("do_lower_case", True)),
    )
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rust.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    rust.decoder = decoders.WordPiece()
    rust.add_special_tokens(list(BERT_SPECIALS))
    return rust.to_str().encode("utf-8")
