"""What task-specific layers cost: `python -m bench.adapters`.

Batches of Quora rows are dealt out to K tasks and trained on in three ways: without task-specific layers,
with them in one mixed pass, and with them in a pass a task. Then several tasks are asked of the same texts.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from bench.machine import describe_machine
from bench.quora import find_quora
from polytask.batch import Batch
from polytask.choices import AdapterRecipe
from polytask.console import print_table
from polytask.data.batches import Collator
from polytask.data.rows import Row, read_rows
from polytask.data.tokenizer import Tokenizer
from polytask.data.tokens import TokenTable, table_from_texts
from polytask.model.compute import Compute, choose_compute, keep_freed_memory
from polytask.model.dropout import Dropout
from polytask.model.locate import locate_encoder
from polytask.model.multitask import MultitaskModel
from polytask.model.weights import load_encoder
from polytask.recipe_tasks import TaskRecipe
from polytask.tasks import Task, loss_per_row

KINDS = ("pal", "low_rank", "houlsby", "lora", "top_attention")
RESULTS = Path(__file__).parent / "results" / "adapters.json"


def build(kind: str, num_tasks: int, folder: Path) -> MultitaskModel:
    """A model of K pair tasks on the embedded encoder."""
    tasks = {
        f"t{k}": Task(f"t{k}", "classification", 2, ("no", "yes"), None, "accuracy") for k in range(num_tasks)
    }
    encoder, _ = load_encoder(folder)
    return MultitaskModel(
        encoder, tasks, torch.Generator().manual_seed(1), AdapterRecipe.model_validate({"kind": kind})
    )


def quora_table(tokenizer: Tokenizer, num_rows: int) -> TokenTable:
    """The first rows of Quora's training file, sorted by length so that batches need little padding."""
    written = TaskRecipe(train="-", text=("sentence1", "sentence2"), label=("is_duplicate",))
    rows = read_rows(find_quora(), written, labelled=False)
    texts = [
        row.texts for row, _ in zip((r for r in rows if isinstance(r, Row)), range(num_rows), strict=False)
    ]
    return table_from_texts(sorted(texts, key=lambda pair: len(pair[0]) + len(pair[1])), tokenizer)


def deal(batch: Batch, num_tasks: int) -> Batch:
    """The rows of a batch as those of K tasks, equally many each."""
    share = batch.tokens.ids.shape[0] // num_tasks
    slices = {f"t{k}": slice(k * share, (k + 1) * share) for k in range(num_tasks)}
    targets = {name: torch.zeros(share, dtype=torch.long) for name in slices}
    return Batch(batch.tokens, slices, targets, batch.num_tokens)


def alone(batch: Batch, name: str) -> Batch:
    """The rows of one task only."""
    rows = batch.slices[name]
    tokens = batch.tokens.rows(rows)
    return Batch(
        tokens,
        {name: slice(0, rows.stop - rows.start)},
        {name: batch.targets[name]},
        int(tokens.lengths.sum()),
    )


def train_step(model: MultitaskModel, batches: list[Batch], compute: Compute, dropout: Dropout) -> None:
    """Forward and backward of an update, without the optimiser."""
    for batch in batches:
        with compute.autocast():
            outputs = model(batch, dropout)
        losses = [loss_per_row(model.tasks[k], outputs[k], batch.targets[k]).sum() for k in outputs]
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
    model.zero_grad(set_to_none=True)


def measure(contenders: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Median seconds of each, interleaved."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, work in contenders.items():
            started = time.perf_counter()
            work()
            if number:  # the first round warms up
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(times) for name, times in seconds.items()}


def main() -> int:
    """Measure, print and keep the results."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tasks", type=int, default=8)
    options.add_argument("--batch", type=int, default=32)
    options.add_argument("--rounds", type=int, default=7)
    chosen = options.parse_args()
    folder = locate_encoder("minilm", Path())
    tokenizer = Tokenizer.load(folder)
    keep_freed_memory()
    collator, compute = Collator(tokenizer, 128), choose_compute()
    table = quora_table(tokenizer, 2000)
    plain = build("none", chosen.tasks, folder)
    dropout = Dropout(0.1, torch.Generator().manual_seed(1))
    starts = range(0, table.num_rows - chosen.batch, table.num_rows // 4)
    batches = [
        deal(collator.batch(plain.tasks["t0"], table, range(s, s + chosen.batch)), chosen.tasks)
        for s in starts
    ]
    models = {kind: build(kind, chosen.tasks, folder) for kind in KINDS}
    work: dict[str, Callable[[], None]] = {"none": lambda: train_step(plain, batches, compute, dropout)}
    for kind, model in models.items():
        work[kind] = lambda model=model: train_step(model, batches, compute, dropout)  # type: ignore[misc]
    parted = [alone(batch, name) for batch in batches for name in batch.slices]
    work["pal, a pass a task"] = lambda: train_step(models["pal"], parted, compute, dropout)

    def ask(names: list[str]) -> None:
        with torch.inference_mode(), compute.autocast():
            for batch in batches:
                rows = slice(0, batch.tokens.ids.shape[0])
                plain(Batch(batch.tokens, dict.fromkeys(names, rows), {}, batch.num_tokens))

    work["predict 1 task"] = lambda: ask(["t0"])
    work["predict 3 tasks of the same texts"] = lambda: ask(["t0", "t1", "t2"])
    seconds = measure(work, chosen.rounds)
    tokens = sum(batch.num_tokens for batch in batches)
    rows = [[name, f"{tokens / s:,.0f}", f"{seconds['none'] / s:.2f}"] for name, s in seconds.items()]
    print_table(["", "tokens/s", "of none"], rows)
    mixed = seconds["pal, a pass a task"] / seconds["pal"]
    extra = seconds["predict 3 tasks of the same texts"] / seconds["predict 1 task"]
    print(
        f"one mixed pass against {chosen.tasks} passes: {mixed:.2f}x as fast; "
        f"three tasks of the same texts against one: {extra:.2f}x the time"
    )
    RESULTS.parent.mkdir(exist_ok=True)
    document = {
        "machine": describe_machine(),
        "seconds": seconds,
        "tokens": tokens,
        "mixed": mixed,
        "three": extra,
    }
    RESULTS.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
