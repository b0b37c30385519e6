"""Every head, pooling and task-specific layer answers in ONNX as in torch, at any batch and length."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from tiny_modernbert import CONFIG as MODERN

from polytask.choices import AdapterRecipe, HeadRecipe
from polytask.data.padding import Padded
from polytask.deploy.onnx_graph import build_graph
from polytask.deploy.onnx_paths import split_paths
from polytask.deploy.onnx_scorer import GRAPH, OnnxScorer
from polytask.deploy.quantize import quantize
from polytask.evaluate.network import NetworkScorer
from polytask.model.architectures import new_encoder
from polytask.model.compute import choose_compute
from polytask.model.config import EncoderConfig
from polytask.model.multitask import MultitaskModel
from polytask.tasks import Task

TOLERANCE = 5e-5  # of outputs up to about 5; a recurrent head adds up 32 steps
CONFIG = EncoderConfig("bert", 50, 16, 3, 2, 32, 32)
PLAIN = Task("plain", "classification", 1, ("a", "b", "c"), None, "accuracy")
PAIR = Task("pair", "regression", 2, (), (0.0, 5.0), "pearson", pairs="separate")
HEADS = {
    "plain": PLAIN,
    "pair": PAIR,
    "cosine": Task(
        "cosine", "regression", 2, (), (0.0, 5.0), "pearson", "separate", HeadRecipe(kind="cosine")
    ),
    "attention": Task("attention", "classification", 1, ("a", "b"), None, "accuracy", pooling="attention"),
    "pooler": Task("pooler", "multilabel", 1, ("a", "b"), None, "f1_macro", pooling="pooler"),
    "large": Task("large", "classification", 1, ("a", "b"), None, "accuracy", head=HeadRecipe(kind="large")),
    "rnn": Task(
        "rnn", "classification", 1, ("a", "b"), None, "accuracy", head=HeadRecipe(kind="rnn", cls=True)
    ),
    "lstm": Task("lstm", "classification", 1, ("a", "b"), None, "accuracy", head=HeadRecipe(kind="lstm")),
}
TWO = {"plain": PLAIN, "pair": PAIR}


def model_of(
    tasks: dict[str, Task], adapter: AdapterRecipe | None = None, config: EncoderConfig = CONFIG
) -> MultitaskModel:
    generator = torch.Generator().manual_seed(1)
    model = MultitaskModel(new_encoder(config), tasks, generator, adapter)
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # adapters start by changing nothing
            parameter.normal_(std=0.2, generator=generator)
            if "norm" in name and name.endswith("weight"):
                parameter.add_(1)
    return model.eval()


def scorers(model: MultitaskModel, folder: Path) -> tuple[NetworkScorer, OnnxScorer]:
    graph = build_graph(model)
    onnx.save(split_paths(graph) if len(model.adapters) else graph, folder / GRAPH)
    return NetworkScorer(model, choose_compute("cpu", "fp32")), OnnxScorer(folder, model.tasks)


def padded(rows: int, length: int) -> Padded:
    random = np.random.default_rng(rows * 100 + length)
    lengths = random.integers(2, length + 1, rows)
    lengths[0] = length
    ids = np.where(np.arange(length) < lengths[:, None], random.integers(1, 50, (rows, length)), 0)
    segments = (np.arange(length) >= lengths[:, None] // 2).astype(np.int64)
    return Padded(ids, lengths, segments if rows % 4 else None)


def assert_alike(torch_scorer: NetworkScorer, onnx_scorer: OnnxScorer, given: Padded) -> None:
    rows = len(given.lengths)
    even = rows - rows % 2
    slices = {
        name: slice(0, even if task.separate else rows)
        for name, task in torch_scorer.tasks.items()
        if not task.separate or even
    }
    ours, theirs = onnx_scorer.outputs(given, slices), torch_scorer.outputs(given, slices)
    assert list(ours) == list(theirs)
    for name in theirs:
        assert ours[name].shape == theirs[name].shape
        assert np.abs(ours[name] - theirs[name]).max() <= TOLERANCE, name
    assert np.abs(onnx_scorer.embed(given) - torch_scorer.embed(given)).max() <= TOLERANCE


SHAPES = [(1, 2), (1, 32), (2, 7), (5, 9), (6, 9), (8, 31)]


def test_every_head_and_pooling(tmp_path: Path) -> None:
    both = scorers(model_of(HEADS), tmp_path)
    for rows, length in SHAPES:
        assert_alike(*both, padded(rows, length))


@pytest.mark.parametrize(
    "adapter",
    [
        AdapterRecipe(kind="houlsby_pal"),
        AdapterRecipe(kind="lora", linears=["query", "value", "up"]),
        AdapterRecipe(kind="top_layer"),
    ],
    ids=lambda adapter: str(adapter.kind),
)
def test_layers_of_a_tasks_own(adapter: AdapterRecipe, tmp_path: Path) -> None:
    model = model_of(TWO, adapter)
    both = scorers(model, tmp_path)
    for rows, length in SHAPES:
        assert_alike(*both, padded(rows, length))
    model.adapters_on = False
    given = padded(4, 9)
    assert not np.allclose(
        both[0].outputs(given, {"plain": slice(0, 4)})["plain"],
        both[1].outputs(given, {"plain": slice(0, 4)})["plain"],
        atol=1e-3,
    )


def test_modernbert_below_and_beyond_its_window(tmp_path: Path) -> None:
    config = replace(MODERN, vocab_size=50)
    both = scorers(model_of(TWO, config=config), tmp_path)
    assert config.window + 1 < 31
    for rows, length in SHAPES:
        assert_alike(*both, padded(rows, length))


def test_weights_that_tasks_share_are_stored_once_and_what_they_share_is_walked_once(tmp_path: Path) -> None:
    model = model_of(TWO, AdapterRecipe(kind="pal_top"))
    graph = build_graph(model)
    stored = sum(int(np.prod(item.dims)) for item in graph.graph.initializer)
    assert stored <= sum(parameter.numel() for parameter in model.parameters()) + 200
    split = split_paths(graph)
    assert [node.op_type for node in split.graph.node].count("If") == 3  # two tasks and the embedding
    words = [node for node in split.graph.node if "words" in "".join(node.input)]
    assert len(words) == 1
    onnx.save(split, tmp_path / GRAPH)
    both = NetworkScorer(model, choose_compute("cpu", "fp32")), OnnxScorer(tmp_path, model.tasks)
    for rows, length in SHAPES:
        assert_alike(*both, padded(rows, length))


def test_rows_of_a_table_keep_their_own_scale_in_int8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polytask.deploy.quantize.SMALLEST_TABLE", 64)
    model = model_of({"plain": PLAIN})
    with torch.no_grad():
        model.encoder.embeddings.words.weight[7] *= 1000  # one row that would decide the step of all
    onnx.save(quantize(build_graph(model)), tmp_path / GRAPH)
    given = Padded(np.array([[1, 2, 3, 4]]), np.array([4]))
    found = OnnxScorer(tmp_path, model.tasks).embed(given)
    expected = NetworkScorer(model, choose_compute("cpu", "fp32")).embed(given)
    assert np.corrcoef(found[0], expected[0])[0, 1] > 0.99
