"""Which rows of a finished task are kept: random, as many of each class, by herding, or the last seen."""

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from polytask.data.batches import BatchStream
from polytask.data.padding import Ints, budget_batches
from polytask.data.rows import Row
from polytask.data.splits import Split
from polytask.data.tokens import TokenTable
from polytask.evaluate.network import NetworkScorer
from polytask.evaluate.scoring import TOKENS_PER_BATCH
from polytask.recipe import Recipe
from polytask.tasks import Task
from polytask.train.memory import Remembered
from polytask.train.running import Material, train_table
from polytask.update_choices import MEMORY_ROWS, MemoryRecipe

KEEPING_STREAM = 2  # keeps the random numbers of this module apart from a sampler's and a combiner's
VALUE_CLASSES = 10  # equal parts of a regression's range
CANDIDATES = 2_000  # rows that herding looks at: each has to go through the encoder


def settings_after(recipe: Recipe, number: int) -> MemoryRecipe:
    """How a phase's tasks are kept: as the next phase that rehearses wants it, else as it says itself."""
    later = [phase.memory for phase in recipe.phases[number + 1 :] if phase.memory.rehearses]
    return later[0] if later else recipe.phases[number].memory


def keep(material: Material, task: str, settings: MemoryRecipe, batch_size: int, position: int) -> Remembered:
    """The rows to remember of a task, trained up to its `position`-th batch; a first part serves as well."""
    data, limit = material.data[task], settings.rows or MEMORY_ROWS
    choose, table = settings.choose or "balanced", train_table(data)
    random = np.random.default_rng([material.recipe.seed, zlib.crc32(task.encode()), KEEPING_STREAM])
    match choose:
        case "ring":
            last = last_rows(material.stream(task, batch_size, position), limit)
            order = np.concatenate([last, random.permutation(table.num_rows)])  # where few were drawn, any
        case "random":
            order = random.permutation(table.num_rows)
        case "balanced":
            order = balanced_rows(classes_of(data.task, table), random)
        case "herding":
            candidates = random.permutation(table.num_rows)[:CANDIDATES]
            features = _features(material, data.task, table, candidates)
            order = candidates[herded_rows(features, classes_of(data.task, table)[candidates], limit)]
    return Remembered(data.task, _rows_at(data.splits["train"], order, limit), choose)


def classes_of(task: Task, table: TokenTable) -> Ints:
    """A number for each row [N]: its class, its set of labels, or the part of the range that it is in."""
    assert table.targets is not None
    targets = np.asarray(table.targets)
    if task.kind == "regression":
        assert task.range is not None
        low, high = task.range
        parts = ((targets - low) / (high - low) * VALUE_CLASSES).astype(np.int64)
        return np.clip(parts, 0, VALUE_CLASSES - 1)
    if task.kind == "multilabel":
        return np.unique(targets, axis=0, return_inverse=True)[1].astype(np.int64).ravel()
    return targets.astype(np.int64)


def balanced_rows(classes: Ints, random: np.random.Generator) -> Ints:
    """All rows in an order whose every beginning holds the classes as evenly as it can."""
    order = random.permutation(len(classes))
    return _in_turn([order[classes[order] == number] for number in np.unique(classes)])


def herded_rows(features: npt.NDArray[np.float32], classes: Ints, limit: int) -> Ints:
    """Rows whose mean stays closest to their class's, the classes in turn (Welling 2009, as in iCaRL)."""
    features = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    parts = []
    for number in np.unique(classes):
        members = np.flatnonzero(classes == number)
        own = features[members].astype(np.float64)
        mean, total, free = own.mean(axis=0), np.zeros(own.shape[1]), np.ones(len(own), dtype=bool)
        chosen: list[int] = []
        for count in range(1, min(limit, len(own)) + 1):
            distances = np.linalg.norm(mean - (total + own) / count, axis=1)
            best = int(np.where(free, distances, np.inf).argmin())
            chosen.append(best)
            free[best] = False
            total += own[best]
        parts.append(members[chosen])
    return _in_turn(parts)


def last_rows(stream: BatchStream, limit: int) -> Ints:
    """The rows that a stream gave last, the latest batch first."""
    found: list[int] = []
    position = stream.position
    while position > 0 and len(set(found)) < limit:
        position -= 1
        stream.position = position
        found.extend(map(int, stream.next()))
    return np.array(list(dict.fromkeys(found)), dtype=np.int64)


def _in_turn(parts: Sequence[Ints]) -> Ints:
    """One of each part, then another of each, as long as there are any."""
    ranks = np.concatenate([np.arange(len(part)) for part in parts])
    return np.concatenate(parts)[np.argsort(ranks, kind="stable")]


def _features(material: Material, task: Task, table: TokenTable, rows: Ints) -> npt.NDArray[np.float32]:
    """The encoder's mean state of each of some rows, [N, D]."""
    scorer, padder = NetworkScorer(material.model.eval(), material.compute), material.collator.padder
    found = np.empty((len(rows), scorer.width), dtype=np.float32)
    for places in budget_batches(padder.lengths(task, table)[rows], TOKENS_PER_BATCH):
        states = scorer.embed(padder.pad(task, table, rows[places]))
        found[places] = states.reshape(-1, len(places), scorer.width).mean(axis=0)  # of separate pairs both
    return found


def _rows_at(train: Split, order: Ints, limit: int) -> tuple[Row, ...]:
    """The first rows of an order of a table's rows; of a row and its copies, the row itself and once."""
    origins = train.origins()
    wanted = list(dict.fromkeys(origins[order].tolist()))[:limit]
    first = dict(zip(*(part.tolist() for part in np.unique(origins, return_index=True)), strict=True))
    numbers = {first[origin] for origin in wanted}
    found = {number: row for number, row in enumerate(train.rows()) if number in numbers}
    return tuple(found[first[origin]] for origin in wanted)
