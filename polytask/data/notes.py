"""What a user should know about a task's rows: bad ones, repeated ids, leaks, and what was done to them."""

from collections.abc import Iterator

import numpy as np

from polytask.data.preparation import Plan
from polytask.data.splits import Part, Split
from polytask.data.tokens import TokenTable


def bad_rows_note(task: str, split: Split) -> Iterator[str]:
    """How many rows of each file cannot be used."""
    for part in split.parts:
        bad, total = part.scan.num_bad, part.scan.num_bad + part.scan.num_rows
        if bad:
            yield f"{task} {split.name}: left out {bad:,} of {total:,} rows (first: {part.scan.first_bad[0]})"


def preparation_notes(task: str, split: Split, table: TokenTable | None = None) -> Iterator[str]:
    """What was joined, left out and added; with the table, also how many copies came out unchanged."""
    where = f"{task} {split.name}"
    for part in split.parts[1:]:
        if part.file.key == "dev":
            yield (
                f"{where}: the {part.scan.num_rows:,} dev rows are trained on, so there are no dev scores "
                "and the last weights are the model"
            )
        else:
            limit = part.file.max_tokens
            cut = "" if limit is None else f", each cut at {limit:,} tokens"
            yield f"{where}: joined {part.scan.num_rows:,} rows of {part.file.path}{cut}"
    plan = split.plan
    if plan is None:
        return
    if left_out := len(plan.kept) - int(plan.kept.sum()):
        over = ", ".join(
            f"over {limit:,} characters" + (f" in {part.file.path.name}" if len(split.parts) > 1 else "")
            for part, limit in zip(split.parts, plan.limits, strict=True)
        )
        yield f"{where}: left out the {left_out:,} longest of {len(plan.kept):,} rows ({over})"
    if repeated := int(plan.repeats.sum()):
        yield f"{where}: added {repeated:,} repeated rows to even out the classes"
    if changed := int(plan.changed.sum()):
        same = 0 if table is None else _unchanged(plan, table)
        but = f"; {same:,} of them repeat their row, in which nothing could change" if same else ""
        yield f"{where}: added {changed:,} copies by EDA{but}"
    if plan.before != plan.after:
        counts = (f"{label} {rows:,} -> {plan.after[label]:,}" for label, rows in plan.before.items())
        yield f"{where}: rows of each class: {', '.join(counts)}"


def _unchanged(plan: Plan, table: TokenTable) -> int:
    """How many copies by EDA have the texts of their row."""
    _, first, of_row = np.unique(plan.origins, return_index=True, return_inverse=True)
    same = table.fingerprints == table.fingerprints[first[of_row]]
    return int(same.sum()) - len(first) - int(plan.repeats.sum())


def repeated_id_notes(task: str, split: Split, table: TokenTable) -> Iterator[str]:
    """Which file gives the same id to several rows."""
    originals = np.unique(split.origins(), return_index=True)[1]
    bounds = np.searchsorted(split.origins()[originals], split.starts()[1:])
    for part, rows in zip(split.parts, np.split(originals, bounds), strict=True):
        prints = table.name_prints[rows]
        _, first, of_row = np.unique(prints, return_index=True, return_inverse=True)
        if len(first) == len(rows):
            continue
        again = np.flatnonzero(first[of_row] != np.arange(len(rows)))
        row, earlier = int(rows[again[0]]), int(rows[first[of_row[again[0]]]])
        texts = len(rows) - len(np.unique(table.fingerprints[rows]))
        where = f" of {part.file.path}" if len(split.parts) > 1 else ""
        yield (
            f"{task} {split.name}{where}: {len(again):,} rows repeat the id of an earlier row (first: "
            f"{table.row_id(row)!r} on lines {table.lines[earlier]} and {table.lines[row]}); "
            f"{texts:,} rows repeat the texts of one"
        )


def leak_notes(where: str, table: TokenTable, split: Split, train: TokenTable) -> Iterator[str]:
    """How many rows also stand in train, whose split is `split`."""
    shared = np.flatnonzero(np.isin(table.fingerprints, train.fingerprints))
    if len(shared) == 0:
        return
    row = int(shared[0])
    other = int(np.flatnonzero(train.fingerprints == table.fingerprints[row])[0])
    there = f" of {_part_of(split, other).file.path}" if len(split.parts) > 1 else " there"
    yield (
        f"{where}: {len(shared):,} of {table.num_rows:,} rows also stand in train (first: line "
        f"{table.lines[row]} is line {train.lines[other]}{there}), which flatters the scores on it"
    )


def _part_of(split: Split, row: int) -> Part:
    """The file that a row of a split's table comes from."""
    return split.parts[int(np.searchsorted(split.starts(), split.origins()[row], side="right")) - 1]
