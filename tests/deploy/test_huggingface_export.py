"""What transformers loads answers as the model does, and what it cannot express is named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_project import load_recipe

from polytask import api
from polytask.choices import AdapterRecipe, HeadRecipe
from polytask.data.tokenizer import Tokenizer
from polytask.deploy.export import export
from polytask.deploy.huggingface import save_classifier, why_not
from polytask.deploy.model import Model, load
from polytask.evaluate.network import NetworkScorer
from polytask.model.compute import choose_compute
from polytask.model.config import Architecture, EncoderConfig
from polytask.model.encoder import Encoder
from polytask.model.multitask import MultitaskModel
from polytask.tasks import Task

TEXTS = ["the film is good", "a", "the song is very awful x y z a b c d e f g h i j k l m n o p q r s"]
PAIRS = [(first, second) for first in TEXTS for second in TEXTS[:2]]
MOOD = Task("mood", "classification", 1, ("bad", "good"), None, "accuracy", temperature=1.7)
ALIKE = Task("alike", "regression", 2, (), (0.0, 5.0), "pearson")
TAGS = Task("tags", "multilabel", 1, ("x", "y", "z"), None, "f1_macro", temperature=0.6)
SAME = Task("same", "classification", 2, ("no", "yes"), None, "accuracy")


def model_of(architecture: Architecture, tokenizer: Tokenizer) -> Model:
    # Roberta's positions start after the padding's id, whatever that is.
    first = tokenizer.pad_id + 1 if architecture == "roberta" else 0
    config = EncoderConfig(
        architecture=architecture,
        vocab_size=tokenizer.vocab_size,
        width=16,
        num_layers=2,
        num_heads=2,
        ffn_width=32,
        max_length=32,
        first_position=first,
        pad_id=tokenizer.pad_id,
        pooler=architecture != "electra",
    )
    generator = torch.Generator().manual_seed(3)
    encoder = Encoder(config)
    electra = architecture == "electra"
    tasks = {
        task.name: replace(
            task,
            pooling="cls" if electra else "pooler",
            head=HeadRecipe(kind="hidden" if electra else "linear"),
        )
        for task in (MOOD, ALIKE, TAGS, SAME)
    }
    network = MultitaskModel(encoder, tasks, generator)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.normal_(std=0.3, generator=generator)
            if "norm" in name and name.endswith("weight"):
                parameter.add_(1)
    settings = {"max_length": 24, "encoder_name": "tiny", "sources": {}}
    return Model(NetworkScorer(network, choose_compute("cpu", "fp32")), tokenizer, settings)


def theirs(folder: Path, rows: Any) -> torch.Tensor:
    """The logits of what transformers loads from a folder, tokenised by its tokenizer."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    network, report = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    columns = list(zip(*rows, strict=True)) if isinstance(rows[0], tuple) else [rows]
    given = tokenizer(*map(list, columns), padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        return network.eval()(**given).logits


@pytest.mark.parametrize("architecture", ["bert", "roberta", "electra"])
def test_transformers_gives_each_tasks_answers(
    architecture: Architecture, tiny: Path, tmp_path: Path
) -> None:
    model = model_of(architecture, Tokenizer.load(tiny / "encoder"))
    for task in model.tasks.values():
        assert why_not(task, model.network.encoder, None) is None
        save_classifier(model.network, task, model.tokenizer, 24, tmp_path / task.name)
        rows: Any = TEXTS if task.texts == 1 else PAIRS
        logits = theirs(tmp_path / task.name, rows)
        expected = model.predict(task.name, rows)
        if task.kind == "regression":
            found = logits[:, 0].clamp(0, 5).numpy()
            assert np.allclose(found, [item["value"] for item in expected], atol=1e-5)
            continue
        shares = logits.softmax(1) if task.kind == "classification" else logits.sigmoid()
        wanted = [list(item["probabilities"].values()) for item in expected]
        assert np.allclose(shares.numpy(), wanted, atol=1e-5)


def test_the_labels_go_along(tiny: Path, tmp_path: Path) -> None:
    model = model_of("bert", Tokenizer.load(tiny / "encoder"))
    save_classifier(model.network, model.tasks["mood"], model.tokenizer, 24, tmp_path / "mood")
    config = transformers.AutoConfig.from_pretrained(tmp_path / "mood")
    assert config.id2label == {0: "bad", 1: "good"}
    assert config.problem_type == "single_label_classification"
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "mood").model_max_length == 24


def test_a_run_is_exported_whole_and_checked(tiny: Path, one_thread: None, tmp_path: Path) -> None:
    recipe = load_recipe(tiny, "tasks.mood.pooling=pooler", "phases.0.steps_per_epoch=2")
    api.train(recipe, tmp_path / "run")
    told = export(tmp_path / "run", "huggingface")
    folder = tmp_path / "run" / "huggingface"
    assert told["folder"] == str(folder)
    assert told["tasks"]["mood"]["largest_difference"] <= 1e-5
    assert told["encoder_difference"] <= 1e-5
    assert list(told["left_out"]) == ["alike", "tags"]
    assert "pooling 'mean'" in told["left_out"]["tags"]
    assert "`tags` has no classifier" in (folder / "README.md").read_text()
    model = load(tmp_path / "run", precision="fp32")
    shares = theirs(folder / "classifiers" / "mood", TEXTS[:2]).softmax(1)
    wanted = [list(item["probabilities"].values()) for item in model.predict("mood", TEXTS[:2])]
    assert np.allclose(shares.numpy(), wanted, atol=1e-5)
    encoder = transformers.AutoModel.from_pretrained(folder / "encoder").eval()
    words = transformers.AutoTokenizer.from_pretrained(folder / "encoder")
    with torch.inference_mode():
        mean = encoder(**words([TEXTS[0]], return_tensors="pt")).last_hidden_state.mean(1)
    assert np.allclose(mean.numpy(), model.embed([TEXTS[0]]), atol=1e-5)
    assert json.loads((folder / "export.json").read_text())["left_out"] == told["left_out"]


@pytest.mark.parametrize(
    ("task", "architecture", "adapter", "said"),
    [
        (MOOD, "bert", None, "pooling 'mean' and head 'linear'"),
        (replace(MOOD, pooling="pooler", head=HeadRecipe(kind="large")), "bert", None, "head 'large'"),
        (replace(MOOD, pooling="pooler"), "bert", AdapterRecipe(kind="pal"), "kind 'pal'"),
        (replace(ALIKE, pooling="pooler", pairs="separate"), "bert", None, "pair separately"),
        (replace(MOOD, pooling="cls"), "distilbert", None, "of distilbert puts another layer"),
        (
            replace(MOOD, pooling="cls", head=HeadRecipe(kind="hidden", size=8)),
            "electra",
            None,
            "head's size is 8",
        ),
    ],
)
def test_what_cannot_be_expressed_is_said_by_name(
    task: Task, architecture: Architecture, adapter: AdapterRecipe | None, said: str
) -> None:
    config = EncoderConfig(architecture, 30, 16, 2, 2, 32, 32, pooler=architecture == "bert")
    reason = why_not(task, Encoder(config), adapter)
    assert reason is not None
    assert said in reason
