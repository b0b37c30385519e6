"""Whether a model still answers as it did: its outputs on rows that are at hand, bit by bit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytask.data.padding import Padder
from polytask.data.prepare import TaskData
from polytask.data.tokenizer import Tokenizer
from polytask.data.tokens import TokenTable, table_from_texts
from polytask.evaluate.network import NetworkScorer
from polytask.evaluate.scoring import output_tasks
from polytask.model.compute import Compute
from polytask.model.multitask import MultitaskModel
from polytask.tasks import Floats, Task, answers
from polytask.train.memory import Remembered

TEXTS = (
    "The film is good.",
    "A long and rather dull evening, saved by its last ten minutes!",
    "How do I learn to play the guitar?",
    "Two people are walking a dog along the beach.",
    "no",
    "Prices rose by 3.5 % in 2019, the bank said.",
)


@dataclass(frozen=True)
class Probe:
    """Rows to ask one task of, and what they are."""

    task: Task
    table: TokenTable
    what: str


def make_probes(
    tasks: Mapping[str, Task],
    memory: Mapping[str, Remembered],
    data: Mapping[str, TaskData],
    tokenizer: Tokenizer,
) -> list[Probe]:
    """For each task the rows that are at hand: those remembered, else dev rows, else fixed texts."""
    probes = []
    for name, task in tasks.items():
        dev = data[name].dev if name in data else None
        if name in memory:
            table, what = memory[name].table(tokenizer), "remembered rows"
        elif dev is not None:
            table, what = dev, "dev rows"
        else:
            texts = [(text,) if task.texts == 1 else (text, TEXTS[-1]) for text in TEXTS]
            table, what = table_from_texts(texts, tokenizer), "fixed texts"
        probes.append(Probe(task, table, what))
    return probes


def ask(
    model: MultitaskModel, probes: list[Probe], padder: Padder, compute: Compute
) -> dict[str, tuple[Floats, Floats]]:
    """Each task's raw outputs and answers to its probe."""
    scorer = NetworkScorer(model, compute)
    found = {}
    for probe in probes:
        name = probe.task.name
        outputs = output_tasks(scorer, [model.tasks[name]], probe.table, padder)[name]
        found[name] = outputs, answers(model.tasks[name], outputs)
    return found


def compare(
    probes: list[Probe],
    before: Mapping[str, tuple[Floats, Floats]],
    after: Mapping[str, tuple[Floats, Floats]],
) -> dict[str, dict[str, Any]]:
    """What changed, task by task: rows whose bits differ, and by how much an answer changed at most."""
    found = {}
    for probe in probes:
        name = probe.task.name
        pairs = list(zip(before[name], after[name], strict=True))
        differ = np.any(
            [(old.view(np.int32) != new.view(np.int32)).any(axis=1) for old, new in pairs], axis=0
        )
        old, new = pairs[1]
        found[name] = {
            "rows": len(old),
            "of": probe.what,
            "changed_rows": int(differ.sum()),
            "largest_change": float(np.abs(new - old).max()),
        }
    return found
