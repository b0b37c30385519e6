"""Ways to train K tasks jointly or with PCGrad, one process each: what `bench.gradients` compares."""

import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from polytask.batch import Batch, Tokens
from polytask.model.compute import Compute, choose_compute, keep_freed_memory
from polytask.model.dropout import Dropout
from polytask.model.encoder import Encoder, EncoderConfig
from polytask.model.locate import locate_encoder
from polytask.model.multitask import MultitaskModel
from polytask.model.weights import load_encoder
from polytask.tasks import Task, loss_per_row
from polytask.train.combiners.build import Combiner
from polytask.train.gradients import SHARED, GradientEngine
from polytask.update_choices import CombineRecipe

BERT_BASE = EncoderConfig(
    architecture="bert",
    vocab_size=30_522,
    width=768,
    num_layers=12,
    num_heads=12,
    ffn_width=3072,
    max_length=512,
)
CLIP = 1.0
WARMUP_UPDATES = 2


@dataclass(frozen=True)
class Setting:
    """What an update works on: the same for every contender."""

    encoder: str  # "minilm" or "base"
    tasks: int
    batch: int
    length: int
    updates: int


@dataclass(frozen=True)
class Work:
    """A model, one batch of each task, and an optimiser."""

    model: MultitaskModel
    batches: Sequence[Batch]
    compute: Compute
    optimizer: torch.optim.Optimizer
    dropout: Dropout

    def loss(self, number: int) -> Tensor:
        batch, name = self.batches[number], f"t{number}"
        with self.compute.autocast():
            outputs = self.model(batch, self.dropout)[name]
        return loss_per_row(self.model.tasks[name], outputs, batch.targets[name]).mean()

    def parameters(self, *, shared: bool) -> list[torch.nn.Parameter]:
        return [p for name, p in self.model.named_parameters() if name.startswith(SHARED) == shared]

    def step(self) -> None:
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def prepare(setting: Setting) -> Work:
    """Random weights for BERT-base, random tokens, random labels."""
    generator = torch.Generator().manual_seed(1)
    if setting.encoder == "minilm":
        encoder, _ = load_encoder(locate_encoder("minilm", Path()))
    else:
        torch.manual_seed(1)
        encoder = Encoder(BERT_BASE)
    names = [f"t{number}" for number in range(setting.tasks)]
    tasks = {name: Task(name, "classification", 1, ("no", "yes"), None, "accuracy") for name in names}
    model = MultitaskModel(encoder, tasks, generator)
    model.train()
    shape = (setting.batch, setting.length)
    batches = []
    for name in names:
        ids = torch.randint(1000, 30_000, shape, generator=generator)
        tokens = Tokens(ids, torch.full((setting.batch,), setting.length))
        labels = torch.randint(2, (setting.batch,), generator=generator)
        batches.append(Batch(tokens, {name: slice(0, setting.batch)}, {name: labels}, ids.numel()))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    return Work(model, batches, choose_compute("cpu"), optimizer, Dropout(0.1, generator))


def with_engine(work: Work, combine: str | None, mode: str) -> Callable[[], None]:
    """polytask's engine: `combine` None is a plain sum."""
    buffers = torch.bfloat16 if mode == "bf16" else torch.float32
    named = dict(work.model.named_parameters())
    engine = GradientEngine(work.model, named, lean=mode == "lean", buffers=buffers)
    combiner = Combiner(CombineRecipe(kind=combine or "sum"), engine.num_groups, len(work.batches))
    random = np.random.default_rng(1)

    def update() -> None:
        engine.begin(separate=combine is not None)
        for number in range(len(work.batches)):
            engine.backward(number, work.loss(number))
        weigh = None if combine is None else lambda grams, tasks: combiner.weigh(grams, tasks, random)
        engine.finish(weigh, CLIP)
        work.step()

    return update


def plain(work: Work) -> Callable[[], None]:
    """K backward passes that add up in `.grad`, in nothing but torch."""
    everything = list(work.model.parameters())

    def update() -> None:
        for number in range(len(work.batches)):
            work.loss(number).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(everything, CLIP)
        work.step()

    return update


def flat(work: Work) -> Callable[[], None]:
    """PCGrad as one writes it down: each task's gradient as one long vector, projected on the others."""
    shared, own = work.parameters(shared=True), work.parameters(shared=False)
    random = np.random.default_rng(1)

    def update() -> None:
        rows = []
        for number in range(len(work.batches)):
            work.loss(number).backward()  # type: ignore[no-untyped-call]
            rows.append(
                torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in shared])
            )
            for parameter in shared:
                parameter.grad = None
        total = torch.zeros_like(rows[0])
        for i, row in enumerate(rows):
            made = row.clone()
            for j in random.permutation(len(rows)):
                if j != i and (dot := torch.dot(made, rows[j])) < 0:
                    made -= dot / rows[j].square().sum() * rows[j]
            total += made
        for parameter, part in zip(shared, torch.split(total, [p.numel() for p in shared]), strict=True):
            parameter.grad = part.view_as(parameter)
        torch.nn.utils.clip_grad_norm_([*shared, *own], CLIP)
        work.step()

    return update


def torchjd(work: Work) -> Callable[[], None]:
    """torchjd's Jacobian engine, one row after another, with its PCGrad."""
    from torchjd.aggregation import PCGrad
    from torchjd.autojac import backward, jac_to_grad

    shared, own = work.parameters(shared=True), work.parameters(shared=False)
    used: list[Tensor] = []  # it refuses parameters that no loss depends on

    def update() -> None:
        losses = [work.loss(number) for number in range(len(work.batches))]
        if not used:
            found = torch.autograd.grad(
                torch.stack(losses).sum(), shared, retain_graph=True, allow_unused=True
            )
            used.extend(p for p, gradient in zip(shared, found, strict=True) if gradient is not None)
        torch.autograd.backward(losses, inputs=own, retain_graph=True)
        backward(losses, inputs=used, parallel_chunk_size=1)
        jac_to_grad(used, PCGrad(), optimize_gramian_computation=True)
        torch.nn.utils.clip_grad_norm_([*used, *own], CLIP)
        work.step()

    return update


CONTENDERS: dict[str, Callable[[Work], Callable[[], None]]] = {
    "plain joint": lambda work: with_engine(work, None, "fast"),
    "plain torch": plain,
    "fast": lambda work: with_engine(work, "pcgrad", "fast"),
    "fast bf16": lambda work: with_engine(work, "pcgrad", "bf16"),
    "lean": lambda work: with_engine(work, "pcgrad", "lean"),
    "flat PCGrad": flat,
    "torchjd": torchjd,
}


def main(name: str, setting: Setting) -> None:
    """Time one contender and print its seconds an update and its peak memory as JSON."""
    keep_freed_memory()
    work = prepare(setting)
    update = CONTENDERS[name](work)
    seconds, cpu = [], []
    for number in range(WARMUP_UPDATES + setting.updates):
        started, worked = time.perf_counter(), time.process_time()
        update()
        if number >= WARMUP_UPDATES:
            seconds.append(time.perf_counter() - started)
            cpu.append(time.process_time() - worked)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak}))


if __name__ == "__main__":
    main(sys.argv[1], Setting(**json.loads(sys.argv[2])))
