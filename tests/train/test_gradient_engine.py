"""The combined gradient is the one from explicit, flattened task gradients, whatever else is going on."""

import multiprocessing
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, distributed

from polytask.batch import Batch, Tokens
from polytask.choices import AdapterRecipe
from polytask.model.encoder import Encoder, EncoderConfig
from polytask.model.multitask import MultitaskModel
from polytask.tasks import Task, loss_per_row
from polytask.train.combiners.build import Combiner
from polytask.train.gradients import SHARED, GradientEngine
from polytask.train.parallel import World
from polytask.train.sources import named_groups
from polytask.update_choices import CombineRecipe

CONFIG = EncoderConfig(
    architecture="bert", vocab_size=50, width=16, num_layers=2, num_heads=2, ffn_width=32, max_length=24
)
YES_NO = ("no", "yes")
TASKS = {
    "single": Task("single", "classification", 1, YES_NO, None, "accuracy"),
    "joined": Task("joined", "classification", 2, YES_NO, None, "accuracy"),
    "separate": Task("separate", "regression", 2, (), (0.0, 5.0), "pearson", pairs="separate"),
    "tags": Task("tags", "multilabel", 1, ("a", "b", "c"), None, "f1_macro"),
}
ROWS = 6
Draws = Sequence[tuple[int, float]]  # task and the factor of its loss
ONE_EACH: Draws = [(0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0)]
SEVERAL: Draws = [(2, 0.5), (0, 1.0), (0, 0.7), (2, 0.5), (3, 1.0), (0, 0.1)]


def build(adapter: str = "none") -> MultitaskModel:
    generator = torch.Generator().manual_seed(3)
    encoder = Encoder(CONFIG)
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
            if "norm" in name and name.endswith("weight"):
                parameter.add_(1)
    model = MultitaskModel(encoder, TASKS, generator, AdapterRecipe.model_validate({"kind": adapter}))
    with torch.no_grad():  # a head that starts at 0 would hide the encoder
        for parameter in [*model.heads.parameters(), *model.adapters.parameters()]:
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return model


def batch_of(number: int, seed: int, rows: slice = slice(None)) -> Batch:
    """A draw of the task with this number, or some of its rows."""
    task = list(TASKS.values())[number]
    generator = torch.Generator().manual_seed(100 * number + seed)
    ids = torch.randint(5, 50, (2, ROWS, 9), generator=generator)[: 2 if task.separate else 1, rows]
    lengths = torch.randint(3, 10, (2, ROWS), generator=generator)[: 2 if task.separate else 1, rows]
    if task.kind == "multilabel":
        targets = torch.randint(2, (ROWS, 3), generator=generator).float()[rows]
    elif task.kind == "regression":
        targets = torch.randn(ROWS, generator=generator)[rows]
    else:
        targets = torch.randint(2, (ROWS,), generator=generator)[rows]
    ids, lengths = ids.flatten(0, 1), lengths.flatten()
    return Batch(Tokens(ids, lengths), {task.name: slice(0, len(ids))}, {task.name: targets}, len(ids))


def loss_of(model: MultitaskModel, number: int, batch: Batch, *, bf16: bool = False) -> Tensor:
    task = list(TASKS.values())[number]
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        outputs = model(batch)[task.name]
    return loss_per_row(task, outputs.float(), batch.targets[task.name]).mean()


def combiner(kind: str, engine_groups: int) -> Callable[[Tensor, Sequence[int]], Tensor]:
    made = Combiner(CombineRecipe.model_validate({"kind": kind}), engine_groups, len(TASKS))
    return lambda grams, tasks: made.weigh(grams, tasks, np.random.default_rng(5))


def explicit(
    draws: Draws, kind: str, scope: str, adapter: str, clip: float, *, bf16: bool
) -> dict[str, Tensor]:
    """Every task's whole gradient by itself, flattened, its Gram, and the weighted sum, in fp64."""
    model = build(adapter)
    order = list(dict.fromkeys(number for number, _ in draws))
    names = [name for name, _ in model.named_parameters()]
    rows = {
        number: {name: torch.zeros_like(p).double() for name, p in model.named_parameters()}
        for number in order
    }
    for seed, (number, factor) in enumerate(draws):
        loss = factor * loss_of(model, number, batch_of(number, seed), bf16=bf16)
        found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        for name, gradient in zip(names, found, strict=True):
            if gradient is not None:
                rows[number][name] += gradient
    shared = [name for name in names if name.startswith(SHARED)]
    groups = named_groups(shared, scope)
    grams = torch.zeros(max(groups) + 1, len(order), len(order), dtype=torch.float64)
    for name, group in zip(shared, groups, strict=True):
        flat = torch.stack([rows[number][name].flatten() for number in order])
        grams[group] += flat @ flat.T
    weights = combiner(kind, len(grams))(grams, order)
    total = {name: torch.stack([rows[number][name] for number in order]).sum(dim=0) for name in names}
    for name, group in zip(shared, groups, strict=True):
        total[name] = torch.stack(
            [w * rows[n][name] for w, n in zip(weights[group], order, strict=True)]
        ).sum(dim=0)
    norm = float(torch.cat([value.flatten() for value in total.values()]).norm())
    factor = min(1.0, clip / norm) if clip else 1.0
    return {name: value * factor for name, value in total.items()}


def engine_gradients(
    draws: Draws, kind: str, scope: str = "whole", adapter: str = "none", clip: float = 0.0, **options: bool
) -> dict[str, Tensor]:
    """What the engine leaves for the optimiser; with `parts` every draw goes through in two micro-batches."""
    model, world = build(adapter), World()
    bf16, parts = options.pop("bf16", False), options.pop("parts", False)
    buffers = torch.bfloat16 if options.pop("small", False) else torch.float32
    engine = GradientEngine(
        model, dict(model.named_parameters()), scope=scope, buffers=buffers, world=world, **options
    )
    for _ in range(2):  # nothing of one update is left for the next
        model.zero_grad(set_to_none=True)
        engine.begin(separate=kind != "sum")
        for seed, (number, factor) in enumerate(draws):
            engine.expect(number)
            pieces = [slice(0, 4), slice(4, ROWS)] if parts else [slice(None)]
            if world.together:  # each process has its share of a draw's rows
                pieces = [slice(0, 2), slice(2, ROWS)][world.rank : world.rank + 1]
            for piece in pieces:
                share = len(range(ROWS)[piece]) / ROWS
                loss = loss_of(model, number, batch_of(number, seed, piece), bf16=bf16)
                engine.backward(number, loss * (factor * share))
        engine.finish(combiner(kind, engine.num_groups) if kind != "sum" else None, clip)
    found = {
        n: p.grad.clone() if p.grad is not None else torch.zeros_like(p) for n, p in model.named_parameters()
    }
    engine.close()
    assert all(parameter.requires_grad for parameter in model.parameters())
    return found


def assert_equal(found: dict[str, Tensor], wanted: dict[str, Tensor], tolerance: float = 1e-5) -> None:
    assert found.keys() == wanted.keys()
    size = float(torch.cat([value.flatten().double() for value in wanted.values()]).norm())
    assert size > 1e-3
    worst = {name: float((found[name].double() - wanted[name].double()).norm()) / size for name in wanted}
    assert max(worst.values()) <= tolerance, max(worst.items(), key=lambda item: item[1])


@pytest.mark.parametrize("lean", [False, True])
@pytest.mark.parametrize("scope", ["whole", "layer", "tensor"])
@pytest.mark.parametrize(("draws", "adapter"), [(ONE_EACH, "none"), (SEVERAL, "none"), (ONE_EACH, "pal")])
def test_the_combined_gradient_is_that_of_explicit_flattened_gradients(
    draws: Draws, adapter: str, scope: str, lean: bool
) -> None:
    for kind, clip in (("pcgrad", 0.0), ("vaccine", 0.5), ("upgrad", 0.0)):
        wanted = explicit(draws, kind, scope, adapter, clip, bf16=False)
        assert_equal(engine_gradients(draws, kind, scope, adapter, clip, lean=lean), wanted)


@pytest.mark.parametrize("lean", [False, True])
def test_draws_in_micro_batches_are_the_whole_draws(lean: bool) -> None:
    wanted = engine_gradients(SEVERAL, "pcgrad", clip=0.5)
    assert_equal(engine_gradients(SEVERAL, "pcgrad", clip=0.5, lean=lean, parts=True), wanted)


def test_lean_is_fast_in_bf16_too_but_for_bf16s_rounding() -> None:
    fast = engine_gradients(ONE_EACH, "upgrad", bf16=True)
    assert_equal(engine_gradients(ONE_EACH, "upgrad", bf16=True, lean=True), fast, 1e-2)
    assert_equal(engine_gradients(ONE_EACH, "upgrad", bf16=True, small=True), fast, 1e-2)
    assert_equal(fast, explicit(ONE_EACH, "upgrad", "whole", "none", 0.0, bf16=True))


@pytest.mark.parametrize("lean", [False, True])
def test_a_sum_is_what_backward_passes_add_up_to(lean: bool) -> None:
    wanted = explicit(SEVERAL, "sum", "whole", "none", 0.5, bf16=False)
    assert_equal(engine_gradients(SEVERAL, "sum", clip=0.5, lean=lean), wanted)


def one_process(rank: int, meeting: str, out: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    found = {
        f"{kind} {lean}": engine_gradients(SEVERAL, kind, "layer", "pal", 0.5, lean=lean)
        for kind in ("sum", "pcgrad", "vaccine")
        for lean in (False, True)
    }
    torch.save(found, f"{out}-{rank}")
    distributed.destroy_process_group()


def test_two_processes_with_the_same_rows_between_them_are_one(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    arguments = (str(tmp_path / "meeting"), str(tmp_path / "found"))
    processes = [context.Process(target=one_process, args=(rank, *arguments)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=120)
        assert process.exitcode == 0
    first, second = (torch.load(tmp_path / f"found-{rank}") for rank in range(2))
    for name, gradients in first.items():
        kind, lean = name.split()
        assert all(torch.equal(value, second[name][key]) for key, value in gradients.items())
        assert_equal(gradients, engine_gradients(SEVERAL, kind, "layer", "pal", 0.5, lean=lean == "True"))
