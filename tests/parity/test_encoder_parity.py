"""The encoder gives the numbers that transformers gives, on the same folders, both ways."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from against_transformers import MODERNBERT, SIZES, TOLERANCE, assert_same, batch_of, real, shaken, theirs

from polytask.batch import Tokens
from polytask.errors import ModelError
from polytask.model.architectures import AnyEncoder
from polytask.model.locate import locate_encoder
from polytask.model.weights import load_encoder, save_encoder

transformers = pytest.importorskip("transformers")

LENGTHS = (512, 1, 2, 37)
MAKERS: dict[str, Callable[[], Any]] = {
    "bert": lambda: transformers.BertModel(
        transformers.BertConfig(**SIZES, max_position_embeddings=512, type_vocab_size=2)
    ),
    "bert with gelu_new": lambda: transformers.BertModel(
        transformers.BertConfig(**SIZES, max_position_embeddings=512, hidden_act="gelu_new")
    ),
    "roberta": lambda: transformers.RobertaModel(
        transformers.RobertaConfig(
            **SIZES, max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5
        )
    ),
    "roberta that pads with 3": lambda: transformers.RobertaModel(
        transformers.RobertaConfig(**SIZES, max_position_embeddings=516, type_vocab_size=1, pad_token_id=3)
    ),
    "xlm-roberta": lambda: transformers.XLMRobertaModel(
        transformers.XLMRobertaConfig(**SIZES, max_position_embeddings=514, type_vocab_size=1)
    ),
    "distilbert": lambda: transformers.DistilBertModel(
        transformers.DistilBertConfig(
            vocab_size=211, dim=32, n_layers=3, n_heads=4, hidden_dim=72, max_position_embeddings=512
        )
    ),
    "electra": lambda: transformers.ElectraModel(
        transformers.ElectraConfig(**SIZES, max_position_embeddings=512, embedding_size=32)
    ),
    "electra with narrow embeddings": lambda: transformers.ElectraModel(
        transformers.ElectraConfig(
            **SIZES, max_position_embeddings=512, embedding_size=16, hidden_act="gelu_new"
        )
    ),
    "modernbert": lambda: transformers.ModernBertModel(
        transformers.ModernBertConfig(**MODERNBERT, num_hidden_layers=4, local_attention=12)
    ),
    "modernbert with layers and positions of its own": lambda: transformers.ModernBertModel(
        transformers.ModernBertConfig(
            **MODERNBERT,
            num_hidden_layers=3,
            local_attention=9,
            hidden_activation="gelu_pytorch_tanh",
            norm_eps=1e-6,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"],
            rope_parameters={
                "full_attention": {"rope_type": "default", "rope_theta": 500.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
            },
        )
    ),
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    transformers.utils.logging.disable_progress_bar()
    verbosity = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity_error()
    yield
    transformers.utils.logging.set_verbosity(verbosity)


@pytest.fixture(params=MAKERS)
def tiny(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Path]:
    """A tiny model of the family and the folder that transformers wrote of it."""
    torch.manual_seed(1)
    model = shaken(MAKERS[request.param]())
    model.save_pretrained(tmp_path / "theirs")
    return model, tmp_path


@pytest.fixture(scope="module")
def minilm() -> tuple[AnyEncoder, Any]:
    try:
        folder = locate_encoder("minilm", Path())
    except ModelError as error:
        pytest.skip(str(error))
    return load_encoder(folder)[0], transformers.AutoModel.from_pretrained(folder).eval()


@pytest.mark.parametrize("lengths", [(1,), (12, 30, 1), (128, 512)])
def test_the_embedded_minilm_gives_the_numbers_of_transformers(
    minilm: tuple[AnyEncoder, Any], lengths: tuple[int, ...]
) -> None:
    assert_same(*minilm, lengths)


@torch.no_grad()
def test_company_and_padding_do_not_change_a_row_of_minilm(minilm: tuple[AnyEncoder, Any]) -> None:
    encoder, _ = minilm
    tokens = batch_of((3, 90, 1, 40), encoder.config.vocab_size, num_segments=2)
    together = encoder(tokens)
    assert tokens.segments is not None
    for row, length in enumerate(tokens.lengths.tolist()):
        one = slice(row, row + 1)
        alone = encoder(Tokens(tokens.ids[one, :length], tokens.lengths[one], tokens.segments[one, :length]))
        assert (together[row, :length] - alone[0]).abs().max() <= TOLERANCE


def test_a_folder_of_transformers_gives_the_same_numbers(tiny: tuple[Any, Path]) -> None:
    model, folder = tiny
    encoder, report = load_encoder(folder / "theirs")
    assert report.sentences() == ()
    for lengths in (LENGTHS, (512,), (1,), (9, 9)):
        assert_same(encoder, model, lengths)


def test_a_written_folder_loads_in_transformers_with_the_same_numbers(tiny: tuple[Any, Path]) -> None:
    model, folder = tiny
    encoder, _ = load_encoder(folder / "theirs")
    save_encoder(encoder, folder / "ours")
    again, loading = transformers.AutoModel.from_pretrained(folder / "ours", output_loading_info=True)
    assert type(again) is type(model)
    assert not any(loading[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())
    assert_same(encoder, again.eval(), LENGTHS)


def test_a_sharded_folder_of_transformers_gives_the_same_numbers(tmp_path: Path) -> None:
    model = shaken(MAKERS["bert"]())
    model.save_pretrained(tmp_path, max_shard_size="40KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    assert_same(load_encoder(tmp_path)[0], model, (9, 4))


@pytest.mark.parametrize(
    ("task", "prefix"),
    [
        ("BertForMaskedLM", "bert."),
        ("RobertaForMaskedLM", "roberta."),
        ("XLMRobertaForMaskedLM", "roberta."),
        ("DistilBertForMaskedLM", "distilbert."),
        ("ElectraForMaskedLM", "electra."),
    ],
)
def test_a_language_model_gives_its_encoder_and_names_the_rest(
    task: str, prefix: str, tmp_path: Path
) -> None:
    maker = getattr(transformers, task)
    # Without pad_token_id the default of the family: 1 for the two RoBERTas, otherwise 0.
    model = shaken(maker(maker.config_class(**SIZES, max_position_embeddings=64)))
    model.save_pretrained(tmp_path)
    encoder, report = load_encoder(tmp_path)

    tokens = batch_of((30, 4), SIZES["vocab_size"], pad_id=encoder.config.pad_id)
    with torch.no_grad():
        wanted = theirs(model.base_model, tokens).last_hidden_state
        assert (encoder(tokens) - wanted)[real(tokens)].abs().max() <= TOLERANCE
    pooler = (f"{prefix}pooler.dense.weight", f"{prefix}pooler.dense.bias")
    assert report.missing == (pooler if encoder.pooler is not None else ())
    assert report.left_over
    assert not any(name.startswith(prefix) for name in report.left_over)


def test_gradients_are_those_of_transformers(tmp_path: Path) -> None:
    model = shaken(MAKERS["bert"]())
    model.save_pretrained(tmp_path)
    encoder, _ = load_encoder(tmp_path)
    tokens = batch_of((20, 7), SIZES["vocab_size"], num_segments=2)
    weight = torch.randn(2, 20, 32, generator=torch.Generator().manual_seed(3)) * real(tokens)[..., None]

    (theirs(model, tokens).last_hidden_state * weight).sum().backward()
    (encoder(tokens) * weight).sum().backward()
    layer = model.encoder.layer[1]
    heads = [getattr(layer.attention.self, name).weight.grad for name in ("query", "key", "value")]
    pairs = [
        (encoder.embeddings.words.weight.grad, model.embeddings.word_embeddings.weight.grad),
        (
            encoder.get_parameter("embeddings.positions.weight").grad,
            model.embeddings.position_embeddings.weight.grad,
        ),
        (encoder.get_parameter("layers.1.attention.qkv.weight").grad, torch.cat(heads)),
        (encoder.get_parameter("layers.1.up.bias").grad, layer.intermediate.dense.bias.grad),
        (
            encoder.get_parameter("layers.0.ffn_norm.weight").grad,
            model.encoder.layer[0].output.LayerNorm.weight.grad,
        ),
    ]
    for found, wanted in pairs:
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        assert wanted.abs().max() > 0.01
