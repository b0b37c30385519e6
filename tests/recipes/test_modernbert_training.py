"""A ModernBERT goes the whole way: trained, scored, loaded, described, and read back by transformers."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from observed import assert_same_run, observe, stop_at
from tiny_modernbert import write_modernbert
from tiny_project import load_recipe

import polytask as pt
from polytask import api
from polytask.describe import describe
from polytask.model.weights import save_encoder
from polytask.train.state import TrainingStopped

FEW = ("phases.0.epochs=1", "phases.0.steps_per_epoch=3")
HEADS = ("heads.task-mood.", "heads.task-alike.", "heads.task-tags.")
ADAPTERS = ("pal", "low_rank", "houlsby", "lora", "top_layer")


@pytest.fixture
def modern(project: Path) -> Path:
    """A tiny project whose encoder is a ModernBERT."""
    shutil.rmtree(project / "encoder")
    write_modernbert(project / "encoder", project)
    return project


def test_a_modernbert_learns_and_its_model_answers_as_it_was_scored(modern: Path, tmp_path: Path) -> None:
    more = ("phases.0.epochs=3", "phases.0.steps_per_epoch=40", "phases.0.lr=1e-2", "dropout=0")
    run = api.train(load_recipe(modern, *more), tmp_path / "run")
    scores = json.loads((run.folder / "scores.json").read_text())["tasks"]
    assert scores["mood"]["score"] > 0.9
    assert scores["alike"]["score"] > 0.3
    again = api.evaluate(run.folder)["tasks"]
    for name, score in scores.items():
        assert again[name]["score"] == pytest.approx(score["score"], abs=1e-6)
    model = pt.load(run.folder)
    good, bad = model.predict("mood", ["the film is great a b", "the song is awful c d e"])
    assert (good["label"], bad["label"]) == ("positive", "negative")


@pytest.mark.parametrize("kind", ADAPTERS)
def test_task_specific_layers_train_and_are_loaded_with_the_model(
    modern: Path, tmp_path: Path, kind: str
) -> None:
    recipe = load_recipe(modern, *FEW, f"adapter={kind}", "phases.0.sampler=joint")
    run = api.train(recipe, tmp_path / "run")
    model = pt.load(run.folder, precision="fp32")
    texts = ["the film is good a b c d e f g", "bad", ""]
    alone = [model.predict(task, texts) for task in ("mood", "tags")]
    together = model.predict({"mood": texts, "tags": texts})
    for single, shared in zip(alone, together.values(), strict=True):
        for one, two in zip(single, shared, strict=True):
            assert one["probabilities"] == pytest.approx(two["probabilities"], abs=1e-5)
    model.save(tmp_path / "small", ["mood"])
    small = pt.load(tmp_path / "small", precision="fp32")
    assert small.predict("mood", texts) == alone[0]


@pytest.mark.parametrize(
    ("train", "trained"),
    [
        ("all", ("encoder.", *HEADS)),
        ("heads", HEADS),
        ("top-1", ("encoder.layers.2.", "encoder.final_norm.", *HEADS)),
        ('["encoder.final_norm.*"]', ("encoder.final_norm.",)),
    ],
)
def test_what_is_trained_moves_and_what_is_frozen_stays_bit_identical(
    modern: Path, train: str, trained: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = (*FEW, "phases.0.sampler=joint", f"phases.0.train={train}")
    seen = observe(load_recipe(modern, *changes), modern / "run", monkeypatch)
    assert seen.moved() == {name for name in seen.before if name.startswith(trained)}


@pytest.mark.parametrize("scope", ["whole", "layer"])
def test_task_gradients_are_combined_in_every_part(
    modern: Path, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    combine = f'phases.0.combine={{ kind = "pcgrad", scope = "{scope}" }}'
    seen = observe(load_recipe(modern, *FEW, "phases.0.sampler=joint", combine), modern / "run", monkeypatch)
    assert {name for name in seen.before if name.startswith("encoder.")} <= seen.moved()


def test_a_resumed_training_ends_bit_identical(modern: Path, tmp_path: Path) -> None:
    recipe = load_recipe(modern, "adapter=pal", "phases.0.steps_per_epoch=4")
    api.train(recipe, tmp_path / "whole")
    with pytest.raises(TrainingStopped):
        api.train(
            recipe,
            tmp_path / "cut",
            listener=stop_at(lambda e: e["event"] == "evaluate" and e["epoch"] == 1),
        )
    api.train(recipe, tmp_path / "cut", resume=True)
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


def test_the_trained_encoder_is_read_by_transformers_with_the_same_vectors(
    modern: Path, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    run = api.train(load_recipe(modern, *FEW), tmp_path / "run")
    model = pt.load(run.folder, precision="fp32")
    save_encoder(model.network.encoder, tmp_path / "encoder")
    shutil.copy(run.folder / "model" / "tokenizer.json", tmp_path / "encoder")
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "encoder").eval()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tmp_path / "encoder" / "tokenizer.json"), pad_token="[PAD]"
    )
    texts = ["the film is good a b c d e f g", "bad"]
    given = tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        states = theirs(**given).last_hidden_state
    mask = given["attention_mask"][..., None]
    wanted = (states * mask).sum(1) / mask.sum(1)
    np.testing.assert_allclose(model.embed(texts), wanted.numpy(), atol=1e-5)


def test_info_names_the_architecture_and_counts_what_is_there(modern: Path) -> None:
    described = describe(modern / "tiny.toml", ["adapter=lora"])
    assert described["encoder"]["architecture"] == "modernbert"
    vocabulary = json.loads((modern / "encoder" / "config.json").read_text())["vocab_size"]
    # Two norms a layer but for one in the first, and those of the embeddings and the top.
    matrices = vocabulary * 16 + 3 * (4 * 16 * 16 + 3 * 16 * 24)
    assert described["sizes"]["encoder"] == matrices + 16 * (2 * 3 - 1 + 2)
    assert described["sizes"]["embeddings"] == vocabulary * 16 + 16


def test_a_pooler_is_refused_by_name(modern: Path) -> None:
    with pytest.raises(pt.UserError, match="a modernbert encoder has none: use 'cls' or 'mean'"):
        api.train(load_recipe(modern, *FEW, "tasks.mood.pooling=pooler"), modern / "run")
