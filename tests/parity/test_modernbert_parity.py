"""ModernBERT gives the numbers of transformers in every layer, within the local window and beyond it."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from against_transformers import MODERNBERT, TOLERANCE, assert_same, batch_of, real, shaken, theirs

from polytask.batch import Tokens
from polytask.model.architectures import AnyEncoder
from polytask.model.weights import load_encoder

transformers = pytest.importorskip("transformers")

WINDOW = 6  # tokens on each side: from 8 tokens on, some no longer see each other in a local layer
LAYERS = 4
OLD_KEYS = {
    "global_attn_every_n_layers": 2,
    "global_rope_theta": 900.0,
    "local_rope_theta": 40.0,
    "local_attention": 2 * WINDOW,
}


def make_model(kind: str = "ModernBertModel", **options: Any) -> Any:
    given = {**MODERNBERT, "num_hidden_layers": LAYERS, "local_attention": 2 * WINDOW, **options}
    torch.manual_seed(1)
    return shaken(getattr(transformers, kind)(transformers.ModernBertConfig(**given)))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[AnyEncoder, Any]:
    folder, model = tmp_path_factory.mktemp("modernbert"), make_model()
    model.save_pretrained(folder)
    return load_encoder(folder)[0], model


@pytest.mark.parametrize("lengths", [(1,), (2, 1), (6, 7), (7,), (8,), (8, 1), (13, 14, 15), (200, 3, 60)])
def test_the_numbers_are_the_same_up_to_the_window_and_beyond(
    pair: tuple[AnyEncoder, Any], lengths: tuple[int, ...]
) -> None:
    assert_same(*pair, lengths)


@torch.no_grad()
def test_the_states_of_every_layer_are_those_of_transformers(pair: tuple[AnyEncoder, Any]) -> None:
    encoder, model = pair
    tokens = batch_of((30, 12, 1), MODERNBERT["vocab_size"])
    given = {"input_ids": tokens.ids, "attention_mask": real(tokens).long()}
    wanted = model(**given, output_hidden_states=True).hidden_states
    states = encoder.states(tokens)
    assert len(states) == len(wanted) == LAYERS + 1
    for found, reference in zip(states, wanted, strict=True):
        assert (found - reference)[real(tokens)].abs().max() <= TOLERANCE


@torch.no_grad()
def test_company_and_padding_do_not_change_a_row(pair: tuple[AnyEncoder, Any]) -> None:
    encoder, _ = pair
    tokens = batch_of((3, 90, 1, 40), MODERNBERT["vocab_size"])
    together = encoder(tokens)
    assert bool(together.isfinite().all())
    for row, length in enumerate(tokens.lengths.tolist()):
        one = slice(row, row + 1)
        alone = encoder(Tokens(tokens.ids[one, :length], tokens.lengths[one]))
        assert (together[row, :length] - alone[0]).abs().max() <= TOLERANCE


def test_gradients_are_those_of_transformers(tmp_path: Path) -> None:
    model = make_model()
    model.save_pretrained(tmp_path)
    encoder, _ = load_encoder(tmp_path)
    tokens = batch_of((20, 7), MODERNBERT["vocab_size"])
    weight = torch.randn(2, 20, 32, generator=torch.Generator().manual_seed(3)) * real(tokens)[..., None]

    (theirs(model, tokens).last_hidden_state * weight).sum().backward()
    (encoder(tokens) * weight).sum().backward()
    layer = model.layers[1]
    pairs = {
        "embeddings.words.weight": model.embeddings.tok_embeddings.weight,
        "embeddings.norm.weight": model.embeddings.norm.weight,
        "layers.1.attention_norm.weight": layer.attn_norm.weight,
        "layers.1.attention.qkv.weight": layer.attn.Wqkv.weight,
        "layers.1.attention.output.weight": layer.attn.Wo.weight,
        "layers.1.ffn_norm.weight": layer.mlp_norm.weight,
        "layers.1.up.weight": layer.mlp.Wi.weight,
        "layers.1.down.weight": layer.mlp.Wo.weight,
        "final_norm.weight": model.final_norm.weight,
    }
    for name, reference in pairs.items():
        found, wanted = encoder.get_parameter(name).grad, reference.grad
        if name.startswith("embeddings.words"):
            assert found is not None
            found[0] = 0  # transformers keeps its padding's row at no gradient; nothing real reads it here
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        assert wanted.abs().max() > 0.01


def test_a_config_of_transformers_4_is_read_as_transformers_reads_it(tmp_path: Path) -> None:
    make_model().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    values = json.loads(path.read_text())
    for key in ("layer_types", "rope_parameters"):
        del values[key]
    path.write_text(json.dumps({**values, **OLD_KEYS, "position_embedding_type": "sans_pos"}))
    model = transformers.AutoModel.from_pretrained(tmp_path).eval()
    assert model.config.layer_types.count("full_attention") == LAYERS // 2
    encoder, report = load_encoder(tmp_path)
    assert report.sentences() == ()
    assert_same(encoder, model, (50, 9))
    assert_same(encoder, model, (5,))


def test_a_language_model_gives_its_encoder_and_names_the_rest(tmp_path: Path) -> None:
    model = make_model("ModernBertForMaskedLM")
    model.save_pretrained(tmp_path)
    encoder, report = load_encoder(tmp_path)
    assert_same(encoder, model.base_model, (30, 4))
    assert report.missing == ()
    assert report.left_over == ("decoder.bias", "head.dense.weight", "head.norm.weight")


def test_bf16_stays_close_to_fp32(pair: tuple[AnyEncoder, Any]) -> None:
    encoder, _ = pair
    tokens = batch_of((40, 9), MODERNBERT["vocab_size"])
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        found = encoder(tokens)
    with torch.no_grad():
        wanted = encoder(tokens)
    assert (found.float() - wanted)[real(tokens)].abs().max() < 0.05 * wanted[real(tokens)].abs().max()
