"""One pass for many tasks: a row's outputs and gradients do not depend on the tasks and rows beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polytask.batch import Batch, Tokens
from polytask.choices import AdapterRecipe, HeadRecipe
from polytask.errors import RecipeError
from polytask.model.dropout import Dropout
from polytask.model.encoder import Encoder, EncoderConfig
from polytask.model.multitask import MultitaskModel, module_name
from polytask.tasks import Task

TOLERANCE = 1e-5
NUM_LAYERS = 4
CONFIG = EncoderConfig("bert", 40, 16, NUM_LAYERS, num_heads=4, ffn_width=24, max_length=12, norm_eps=1e-6)
BASE = Task("linear", "classification", 1, ("no", "maybe", "yes"), None, "accuracy")
TASKS = {
    "linear": BASE,
    "value": replace(BASE, name="value", kind="regression", labels=(), range=(0.0, 5.0), pooling="cls"),
    "pairs": replace(BASE, name="pairs", texts=2, pairs="separate", pooling="pooler"),
    "tags": replace(BASE, name="tags", kind="multilabel", pooling="attention"),
    "recurrent": replace(BASE, name="recurrent", head=HeadRecipe(kind="lstm", size=5, cls=True)),
}
ADAPTERS: dict[str, dict[str, Any]] = {
    "none": {"kind": "none"},
    "pal": {"kind": "pal"},
    "pal not shared": {"kind": "pal_unshared"},
    "pal in the top half": {"kind": "pal_top"},
    "pal in the bottom half": {"kind": "pal_bottom"},
    "pal of layer 1 and 3": {"kind": "pal", "layers": "1,3"},
    "low rank": {"kind": "low_rank", "flavour": "published"},
    "ffn": {"kind": "ffn"},
    "houlsby in the top layer": {"kind": "houlsby", "layers": "top-1"},
    "houlsby and pal": {"kind": "houlsby_pal"},
    "lora": {"kind": "lora", "rank": 2, "linears": ("query", "value", "output", "up", "down")},
    "lora of layer 2": {"kind": "lora", "rank": 2, "layers": "2"},
    "attention on top": {"kind": "top_attention", "depth": 2},
    "attention on top as published": {"kind": "top_attention", "flavour": "published", "depth": 2},
    "ffn on top": {"kind": "top_ffn", "depth": 2},
    "layer on top": {"kind": "top_layer"},
    "layer on top as in the paper": {"kind": "top_layer", "flavour": "paper"},
}
FIRST_ADAPTED = {
    "none": NUM_LAYERS,
    "pal in the top half": 2,
    "pal of layer 1 and 3": 1,
    "houlsby in the top layer": 3,
    "lora of layer 2": 2,
    **{name: NUM_LAYERS for name in ADAPTERS if "on top" in name},
}
LENGTHS = {  # of each task's sequences; of pairs the first half are first sentences
    "linear": (5, 2, 9),
    "value": (3,),
    "pairs": (4, 8, 1, 6),
    "tags": (2, 2),
    "recurrent": (1, 7, 3, 12),
}

Sequences = Sequence[Tensor]


def make_model(adapter: str, tasks: Mapping[str, Task] = TASKS) -> MultitaskModel:
    """Every value random, those that start at zero too."""
    chosen = AdapterRecipe(**ADAPTERS[adapter])
    model = MultitaskModel(Encoder(CONFIG), tasks, torch.Generator().manual_seed(0), chosen)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            around = float("norm" in name and name.endswith("weight"))
            parameter.copy_(around + torch.randn(parameter.shape, generator=generator) * 0.2)
    return model


def draw_sequences() -> dict[str, Sequences]:
    generator = torch.Generator().manual_seed(2)
    return {
        task: [torch.randint(1, CONFIG.vocab_size, (length,), generator=generator) for length in lengths]
        for task, lengths in LENGTHS.items()
    }


def to_tokens(sequences: Sequences) -> Tokens:
    lengths = torch.tensor([len(ids) for ids in sequences])
    return Tokens(nn.utils.rnn.pad_sequence(list(sequences), batch_first=True), lengths)


def to_batch(parts: Mapping[str, Sequences]) -> Batch:
    slices, start = {}, 0
    for task, sequences in parts.items():
        slices[task] = slice(start, start + len(sequences))
        start += len(sequences)
    return asked_of(to_tokens([ids for sequences in parts.values() for ids in sequences]), slices)


def asked_of(tokens: Tokens, slices: Mapping[str, slice]) -> Batch:
    return Batch(tokens, dict(slices), {}, int(tokens.lengths.sum()))


def alone(task: str, sequences: Sequences) -> list[Batch]:
    """Each row of a task as the only one of its batch."""
    if not TASKS[task].separate:
        return [to_batch({task: [ids]}) for ids in sequences]
    half = len(sequences) // 2
    return [to_batch({task: list(pair)}) for pair in zip(sequences[:half], sequences[half:], strict=True)]


def gradients(model: MultitaskModel, batches: Sequence[Batch]) -> dict[str, Tensor | None]:
    """Of a weighted sum of all outputs, added up over the batches."""
    model.zero_grad()
    for batch in batches:
        for task, outputs in model(batch).items():
            generator = torch.Generator().manual_seed(sum(map(ord, task)))
            weight = torch.randn(outputs.shape, generator=generator) * 0.2
            (outputs * weight).sum().backward(retain_graph=True)
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def assert_same_gradients(found: Mapping[str, Tensor | None], wanted: Mapping[str, Tensor | None]) -> None:
    for name, gradient in wanted.items():
        mine = found[name]
        assert (mine is None) == (gradient is None), name
        if mine is not None and gradient is not None:
            largest = max(1.0, gradient.abs().max().item())
            assert (mine - gradient).abs().max() <= TOLERANCE * largest, name


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_row_among_five_tasks_scores_as_that_row_alone(adapter: str) -> None:
    model, parts = make_model(adapter), draw_sequences()
    with torch.no_grad():
        together = model(to_batch(parts))
        for task, sequences in parts.items():
            wanted = torch.cat([model(batch)[task] for batch in alone(task, sequences)])
            assert together[task].shape == wanted.shape
            assert (together[task] - wanted).abs().max() <= TOLERANCE
            assert len(wanted) == 1 or (wanted[0] - wanted[1]).abs().max() > 0.01


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_gradients_of_a_mixed_batch_are_the_sum_of_the_single_task_ones(adapter: str) -> None:
    model, parts = make_model(adapter), draw_sequences()
    found = gradients(model, [to_batch(parts)])
    wanted = gradients(model, [to_batch({task: sequences}) for task, sequences in parts.items()])
    assert_same_gradients(found, wanted)
    assert all(gradient is not None and bool(gradient.any()) for gradient in found.values())


OVERLAPS: dict[str, dict[str, slice]] = {
    "all the same": dict.fromkeys(TASKS, slice(0, 4)),
    "in part": {
        "linear": slice(0, 3),
        "value": slice(1, 6),
        "pairs": slice(2, 6),
        "tags": slice(5, 6),
        "recurrent": slice(0, 6),
    },
    "out of order": {"linear": slice(4, 6), "pairs": slice(2, 4), "tags": slice(0, 2)},
    "with texts that no task is asked of": {"value": slice(1, 2), "recurrent": slice(3, 5)},
}


@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_tasks_asked_of_the_same_texts_answer_as_if_asked_one_by_one(adapter: str, overlap: str) -> None:
    model = make_model(adapter)
    tokens = to_tokens([ids for sequences in draw_sequences().values() for ids in sequences][:6])
    slices = OVERLAPS[overlap]
    with torch.no_grad():
        together = model(asked_of(tokens, slices))
        for task, rows in slices.items():
            wanted = model(
                to_batch({task: [tokens.ids[row, : tokens.lengths[row]] for row in range(6)][rows]})
            )
            assert (together[task] - wanted[task]).abs().max() <= TOLERANCE


@pytest.mark.parametrize("overlap", ["all the same", "in part", "out of order"])
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_gradients_of_shared_texts_are_the_sum_of_those_asked_one_by_one(adapter: str, overlap: str) -> None:
    model = make_model(adapter)
    tokens = to_tokens([ids for sequences in draw_sequences().values() for ids in sequences][:6])
    slices = OVERLAPS[overlap]
    found = gradients(model, [asked_of(tokens, slices)])
    one_by_one = [asked_of(tokens, {task: rows}) for task, rows in slices.items()]
    assert_same_gradients(found, gradients(model, one_by_one))


def rows_seen(model: MultitaskModel, batch: Batch) -> list[list[int]]:
    """For each layer of the encoder, how many rows each of its calls had."""
    seen: list[list[int]] = [[] for _ in range(NUM_LAYERS)]
    hooks = [
        layer.register_forward_hook(lambda _, given, __, calls=calls: calls.append(len(given[0])))
        for layer, calls in zip(model.encoder.layers, seen, strict=True)
    ]
    with torch.no_grad():
        model(batch)
    for hook in hooks:
        hook.remove()
    return seen


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_layers_below_the_first_adapted_one_see_each_text_once(adapter: str) -> None:
    model, tokens = make_model(adapter), to_tokens(draw_sequences()["recurrent"])
    first = FIRST_ADAPTED.get(adapter, 0)
    batch = asked_of(tokens, dict.fromkeys(TASKS, slice(0, 4)))
    assert rows_seen(model, batch) == [[4]] * first + [[4 * len(TASKS)]] * (NUM_LAYERS - first)
    model.adapters_on = False
    assert rows_seen(model, batch) == [[4]] * NUM_LAYERS


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_rows_of_several_tasks_go_through_every_layer_in_one_call(adapter: str) -> None:
    batch = to_batch(draw_sequences())
    assert rows_seen(make_model(adapter), batch) == [[len(batch.tokens.ids)]] * NUM_LAYERS


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_the_first_adapted_layer_is_where_the_tasks_part(adapter: str) -> None:
    model = make_model(adapter)
    wanted = NUM_LAYERS + 1 if adapter == "none" else FIRST_ADAPTED.get(adapter, 0)
    assert model.first_adapted == wanted
    model.adapters_on = False
    assert model.first_adapted == NUM_LAYERS + 1


@pytest.mark.parametrize("adapter", [name for name in ADAPTERS if name != "none"])
def test_adapters_that_are_off_leave_the_outputs_of_a_model_without(adapter: str) -> None:
    model, plain = make_model(adapter), make_model("none")
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if not k.startswith("adapters.")})
    batch = to_batch(draw_sequences())
    with torch.no_grad():
        wanted = plain(batch)
        changed = model(batch)
        model.adapters_on = False
        found = model(batch)
    assert all(torch.equal(found[task], wanted[task]) for task in TASKS)
    assert all(not torch.equal(changed[task], wanted[task]) for task in TASKS)


@pytest.mark.parametrize("adapter", ["none", "pal", "attention on top"])
def test_what_a_task_owns_is_its_head_and_adapter_and_nothing_of_another(adapter: str) -> None:
    model = make_model(adapter)
    owned = {task: {id(p) for p in model.own_parameters(task)} for task in TASKS}
    shared = {id(p) for p in model.encoder.parameters()}
    assert sum(map(len, owned.values())) + len(shared) == len(list(model.parameters()))
    assert set().union(*owned.values()) | shared == {id(p) for p in model.parameters()}
    for task in TASKS:
        adapters = {id(p) for p in model.adapter_parameters(task)}
        assert adapters <= owned[task]
        assert bool(adapters) == (adapter != "none")


@pytest.mark.parametrize("adapter", ["pal", "lora", "layer on top"])
def test_another_tasks_adapter_and_head_do_not_touch_a_tasks_outputs(adapter: str) -> None:
    model, batch = make_model(adapter), to_batch(draw_sequences())
    with torch.no_grad():
        before = model(batch)
        for parameter in model.own_parameters("tags"):
            parameter.add_(1.0)
        after = model(batch)
    assert {task for task in TASKS if not torch.equal(before[task], after[task])} == {"tags"}


@pytest.mark.parametrize("adapter", ["none", "pal", "houlsby in the top layer", "layer on top"])
def test_the_dropout_generator_decides_a_training_pass(adapter: str) -> None:
    model, batch = make_model(adapter), to_batch(draw_sequences())
    generators = [torch.Generator().manual_seed(seed) for seed in (1, 1, 2)]
    with torch.no_grad():
        one, same, other = (model(batch, Dropout(0.3, generator)) for generator in generators)
    assert all(torch.equal(one[task], same[task]) for task in TASKS)
    assert all(not torch.equal(one[task], other[task]) for task in TASKS)


def test_embeddings_of_texts_are_the_shared_encoders_whatever_the_adapter() -> None:
    model, batch = make_model("pal"), to_batch(draw_sequences())
    with torch.no_grad():
        found, hidden = model.embed(batch), model.encoder(batch.tokens)
    for row, length in enumerate(batch.tokens.lengths.tolist()):
        assert (found[row] - hidden[row, :length].sum(dim=0) / length).abs().max() <= TOLERANCE


def test_a_task_may_be_called_like_an_attribute_of_a_module() -> None:
    names = ("type", "train", "forward", "keys", "a-b", "0")
    model = make_model("pal", {name: replace(BASE, name=name) for name in names})
    ids = draw_sequences()["linear"]
    assert list(model(to_batch(dict.fromkeys(names, ids)))) == list(names)
    assert {module_name(name) for name in names} == set(model.heads) == set(model.adapters)


def test_pooler_is_refused_by_its_key_where_the_encoder_has_none() -> None:
    encoder = Encoder(replace(CONFIG, architecture="distilbert", num_segments=0, pooler=False))
    with pytest.raises(RecipeError, match=r"tasks\.pairs\.pooling is 'pooler'.*distilbert.*'cls' or 'mean'"):
        MultitaskModel(encoder, TASKS, torch.Generator())
