"""Heads and readers equal their equations, one row at a time and without padding."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from polytask.batch import Tokens
from polytask.choices import HeadRecipe
from polytask.errors import RecipeError
from polytask.model.dropout import Dropout
from polytask.model.encoder import Encoder, EncoderConfig
from polytask.model.heads import Head
from polytask.tasks import Task, answers, loss_per_row

TOLERANCE = 1e-5
CONFIG = EncoderConfig("bert", 20, 16, num_layers=2, num_heads=2, ffn_width=16, max_length=8)
LENGTHS = (4, 7, 1, 3)
SINGLE = Task("t", "classification", 1, ("no", "maybe", "yes"), None, "accuracy")
TASKS = {
    "classification": SINGLE,
    "multilabel": replace(SINGLE, kind="multilabel", metric="f1_macro"),
    "regression": replace(SINGLE, kind="regression", labels=(), range=(0.0, 5.0), metric="pearson"),
    "joined pairs": replace(SINGLE, texts=2),
    "separate pairs": replace(SINGLE, texts=2, pairs="separate"),
}
HEADS: dict[str, dict[str, Any]] = {
    "linear": {"kind": "linear"},
    "hidden": {"kind": "hidden"},
    "hidden of 5": {"kind": "hidden", "size": 5},
    "large": {"kind": "large"},
    "rnn": {"kind": "rnn"},
    "rnn of 3 with cls": {"kind": "rnn", "size": 3, "cls": True},
    "lstm of 5": {"kind": "lstm", "size": 5, "cls": False},
    "lstm of 3 with cls": {"kind": "lstm", "size": 3, "cls": True},
}
POOLINGS = ("cls", "pooler", "mean", "attention")

Weights = Mapping[str, Tensor]


def affine(weights: Weights, name: str, hidden: Tensor) -> Tensor:
    return F.linear(hidden, weights[f"{name}.weight"], weights[f"{name}.bias"])


def run_cells(weights: Weights, kind: str, hidden: Tensor) -> Tensor:
    """The last state of an RNN or LSTM over the tokens [L, D]."""
    size = weights["reader.cells.weight_hh_l0"].shape[1]
    state, memory = torch.zeros(size), torch.zeros(size)
    for token in hidden:
        gates = weights["reader.cells.weight_ih_l0"] @ token + weights["reader.cells.bias_ih_l0"]
        gates = gates + weights["reader.cells.weight_hh_l0"] @ state + weights["reader.cells.bias_hh_l0"]
        if kind == "rnn":
            state = torch.tanh(gates)
        else:
            let_in, forget, new, let_out = gates.chunk(4)
            memory = torch.sigmoid(forget) * memory + torch.sigmoid(let_in) * torch.tanh(new)
            state = torch.sigmoid(let_out) * torch.tanh(memory)
    return state


def attention_pooled(weights: Weights, states: Sequence[Tensor], num_heads: int = 8) -> Tensor:
    """Over the tokens [L, D] of a mix of the layers' states; each head has its own part of the values."""
    shares = weights["reader.layer_weights"].exp() / weights["reader.layer_weights"].exp().sum()
    mixed = sum((share * state for share, state in zip(shares, states, strict=True)), torch.zeros(()))
    scores, values = affine(weights, "reader.scores", mixed), affine(weights, "reader.values", mixed)
    size = values.shape[1] // num_heads
    heads = []
    for head in range(num_heads):
        weight = scores[:, head].exp() / scores[:, head].exp().sum()
        heads.append(weight @ values[:, head * size : (head + 1) * size])
    return torch.cat(heads)


def vector_of(weights: Weights, encoder: Encoder, task: Task, states: Sequence[Tensor]) -> Tensor:
    """One sequence as the head's reader or pooling sees it, from its states [L, D]."""
    last = states[-1]
    if task.head.kind in ("rnn", "lstm"):
        vector = run_cells(weights, task.head.kind, last)
        return torch.cat([vector, last[0]]) if task.head.cls else vector
    if task.pooling == "cls":
        return last[0]
    if task.pooling == "pooler":
        assert encoder.pooler is not None
        return torch.tanh(F.linear(last[0], encoder.pooler.weight, encoder.pooler.bias))
    if task.pooling == "mean":
        return torch.stack([token / len(last) for token in last]).sum(dim=0)
    return attention_pooled(weights, states)


def outputs_of(weights: Weights, task: Task, vectors: Sequence[Tensor]) -> Tensor:
    """The outputs of one row from the vectors of its one or two sequences."""
    features = vectors[0]
    if len(vectors) == 2:
        first, second = vectors
        features = torch.cat([first, second, (first - second).abs(), first * second])
    features = affine(weights, "output.0", features)
    if task.head.kind in ("hidden", "large"):
        features = affine(weights, "output.2", features * (1 + torch.erf(features / 2**0.5)) / 2)
    return features


def randomise(module: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            start = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(start * parameter.shape[-1] ** -0.5)  # larger, a wide RNN would be chaotic


def make_encoder() -> Encoder:
    encoder = Encoder(CONFIG)
    randomise(encoder, 9)
    return encoder


def make_head(task: Task) -> Head:
    head = Head(task, CONFIG, torch.Generator().manual_seed(0))
    randomise(head, 0)
    return head


def make_states(padding: float = 100.0) -> tuple[list[Tensor], Tokens]:
    """Three random states with large values where there is only padding."""
    generator = torch.Generator().manual_seed(5)
    tokens = Tokens(torch.ones(len(LENGTHS), max(LENGTHS), dtype=torch.int64), torch.tensor(LENGTHS))
    states = [torch.randn(*tokens.ids.shape, 16, generator=generator) for _ in range(CONFIG.num_layers + 1)]
    return [state.masked_fill(~tokens.mask()[..., None], padding) for state in states], tokens


def rows_of(task: Task) -> list[tuple[int, ...]]:
    """The sequences of each row: of separate pairs, one of the first half and one of the second."""
    if not task.separate:
        return [(number,) for number in range(len(LENGTHS))]
    return [(number, number + len(LENGTHS) // 2) for number in range(len(LENGTHS) // 2)]


def combinations() -> list[tuple[str, str, str]]:
    """Every kind of head with every kind of task; recurrent ones read what they read whatever the pooling."""
    return [
        (head, task, pooling)
        for head, options in HEADS.items()
        for task in TASKS
        for pooling in (("mean",) if options["kind"] in ("rnn", "lstm") else POOLINGS)
    ]


@pytest.mark.parametrize(("head_name", "task_name", "pooling"), combinations())
def test_a_head_equals_its_equation_forward_and_backward(
    head_name: str, task_name: str, pooling: Any
) -> None:
    task = replace(TASKS[task_name], head=HeadRecipe(**HEADS[head_name]), pooling=pooling)
    encoder, head = make_encoder(), make_head(task)
    states, tokens = make_states()
    found = head(encoder, states, tokens, None)

    weights = {name: p.detach().clone().requires_grad_() for name, p in head.named_parameters()}
    wanted = []
    for row in rows_of(task):
        own = [[state[number, : LENGTHS[number]] for state in states] for number in row]
        vectors = [vector_of(weights, encoder, task, sequence) for sequence in own]
        wanted.append(outputs_of(weights, task, vectors))
    reference = torch.stack(wanted)
    assert found.shape == (len(wanted), task.num_outputs)
    assert (found - reference).abs().max() <= TOLERANCE

    weight = torch.randn(found.shape, generator=torch.Generator().manual_seed(6)) * 0.2
    (found * weight).sum().backward()
    (reference * weight).sum().backward()  # type: ignore[no-untyped-call]
    for name, parameter in head.named_parameters():
        expected = weights[name].grad
        assert parameter.grad is not None
        assert expected is not None
        assert (parameter.grad - expected).abs().max() <= TOLERANCE, name


@pytest.mark.parametrize(("head_name", "task_name", "pooling"), combinations())
def test_what_stands_in_the_padding_changes_nothing(head_name: str, task_name: str, pooling: Any) -> None:
    task = replace(TASKS[task_name], head=HeadRecipe(**HEADS[head_name]), pooling=pooling)
    encoder, head = make_encoder(), make_head(task)
    zeros, large = (head(encoder, *make_states(padding), None) for padding in (0.0, 1e4))
    assert torch.equal(zeros, large)


def cosine_task(
    scale: float | None, kind: str = "regression", span: tuple[float, float] = (0.0, 5.0)
) -> Task:
    task = TASKS["separate pairs"] if kind == "classification" else replace(TASKS["regression"], texts=2)
    labels = ("no", "yes") if kind == "classification" else ()
    head = HeadRecipe(kind="cosine", scale=scale)
    span_of_kind = span if kind == "regression" else None
    return replace(task, pairs="separate", labels=labels, head=head, range=span_of_kind, pooling="cls")


def outputs_of_cosine(task: Task) -> Tensor:
    outputs: Tensor = Head(task, CONFIG, torch.Generator())(make_encoder(), *make_states(), None)
    return outputs


def cosines() -> Tensor:
    states, _ = make_states()
    found = []
    for row in rows_of(TASKS["separate pairs"]):
        first, second = (states[-1][number, 0] for number in row)
        found.append((first @ second) / (first @ first).sqrt() / (second @ second).sqrt())
    return torch.stack(found)


@pytest.mark.parametrize(
    ("scale", "span", "factor"),
    [
        (5.0, (0.0, 5.0), 5.0),
        (1.0, (0.0, 5.0), 1.0),
        (None, (0.0, 5.0), 5.0),
        (40.0, (-1.0, 2.0), 40.0),
        (None, (0.0, 1.0), 1.0),
    ],
)
def test_a_cosine_regression_answers_scale_times_the_cosine_within_its_range(
    scale: float | None, span: tuple[float, float], factor: float
) -> None:
    task = cosine_task(scale, span=span)
    wanted = (factor * cosines()).clamp(*span)
    assert np.abs(answers(task, outputs_of_cosine(task).numpy())[:, 0] - wanted.numpy()).max() <= TOLERANCE


@pytest.mark.parametrize("scale", [1.0, 5.0, None])
def test_a_cosine_classification_answers_the_clamped_cosine_as_probability(scale: float | None) -> None:
    task = cosine_task(scale, "classification")
    second = ((scale or 1.0) * cosines()).clamp(0, 1)
    wanted = torch.stack([1 - second, second], dim=1)
    assert np.abs(answers(task, outputs_of_cosine(task).numpy()) - wanted.numpy()).max() <= TOLERANCE


def test_a_cosine_head_is_trained_on_the_squared_distance_of_its_value() -> None:
    task, targets = cosine_task(5.0), torch.tensor([4.0, 0.5])
    wanted = (5 * cosines() - targets).square() / 1.25**2  # in units of a quarter of the range
    assert (loss_per_row(task, outputs_of_cosine(task), targets) - wanted).abs().max() <= TOLERANCE * 10

    task, labels = cosine_task(1.0, "classification"), torch.tensor([1, 0])
    wanted = (cosines() - labels).square()
    assert (loss_per_row(task, outputs_of_cosine(task), labels) - wanted).abs().max() <= TOLERANCE


def test_a_cosine_head_has_parameters_only_where_it_pools_by_attention() -> None:
    assert list(Head(cosine_task(1.0), CONFIG, torch.Generator()).parameters()) == []
    pooled = Head(replace(cosine_task(1.0), pooling="attention"), CONFIG, torch.Generator())
    assert {name.split(".")[0] for name, _ in pooled.named_parameters()} == {"reader"}


@pytest.mark.parametrize("labels", [("only",), ("no", "maybe", "yes")])
def test_a_cosine_classification_of_other_than_two_labels_is_refused(labels: tuple[str, ...]) -> None:
    with pytest.raises(RecipeError, match=rf"tasks\.t\.head 'cosine' .* two labels.*{', '.join(labels)}"):
        Head(replace(cosine_task(1.0, "classification"), labels=labels), CONFIG, torch.Generator())


def test_a_cosine_of_two_equal_sentences_is_one_and_of_a_zero_vector_finite() -> None:
    state = torch.zeros(4, 2, CONFIG.width)
    state[0] = state[2] = torch.arange(CONFIG.width)
    tokens = Tokens(torch.ones(4, 2, dtype=torch.int64), torch.full((4,), 2))
    task = cosine_task(None, "classification")
    outputs = Head(task, CONFIG, torch.Generator())(make_encoder(), [state], tokens, None)
    assert (outputs - torch.tensor([[1.0], [0.0]])).abs().max() <= TOLERANCE


@pytest.mark.parametrize(
    ("options", "features"),
    [
        ({"kind": "linear"}, [16]),
        ({"kind": "hidden"}, [16, 16]),
        ({"kind": "large"}, [16, 32]),
        ({"kind": "rnn"}, [128]),
        ({"kind": "lstm"}, [256]),
        ({"kind": "lstm", "cls": True}, [272]),
    ],
)
def test_sizes_follow_the_seeds_unless_given(options: dict[str, Any], features: list[int]) -> None:
    head = Head(replace(SINGLE, head=HeadRecipe(**options)), CONFIG, torch.Generator())
    assert [part.in_features for part in head.output if isinstance(part, nn.Linear)] == features


@pytest.mark.parametrize("name", [*HEADS, "cosine"])
def test_dropout_stands_before_every_linear_layer_of_a_head_and_only_in_training(name: str) -> None:
    task = replace(cosine_task(1.0), head=HeadRecipe(**HEADS.get(name, {"kind": "cosine"})))
    encoder, head = make_encoder(), make_head(task)
    states, tokens = make_states()
    plain, again = (head(encoder, states, tokens, None) for _ in range(2))
    nothing = head(encoder, states, tokens, Dropout(0.0, torch.Generator()))
    one, same, other = (
        head(encoder, states, tokens, Dropout(0.5, torch.Generator().manual_seed(seed))) for seed in (1, 1, 2)
    )
    assert torch.equal(plain, again)
    assert torch.equal(plain, nothing)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert not torch.equal(one, plain)
