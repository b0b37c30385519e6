"""How far the tasks of an update pull apart: what an event says of one update, and a verdict of the run."""

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polytask.recipe import Recipe
from polytask.train.combiners.unit import norms_and_cosines
from polytask.train.gradients import Combined
from polytask.train.sources import part_of

Floats = NDArray[np.float64]
Tally = dict[str, float]
DIGITS = 4
MAX_RUNS = 1000  # beside this one that are looked at


def measure(combined: Combined, names: Sequence[str]) -> dict[str, Any]:
    """What an event says of an update; `names` are the rows'. Nothing where it could not be written.

    A tensor is in conflict where the gradients of any two tasks have a negative dot product. Norms and the
    change are those of the whole shared gradient, in relation to the plain sum's.
    """
    grams, weights = combined.grams.numpy(), combined.weights.numpy()
    if len(names) < 2 or not len(grams) or not np.isfinite(grams).all():
        return {}
    above = np.triu_indices(len(names), k=1)
    norms, cosines = norms_and_cosines(grams.sum(axis=0))
    layers = {part: _rounded(norms_and_cosines(g)[1][above]) for part, g in _by_part(combined).items()}
    of_tensor = weights[list(combined.groups)]
    before = float(grams.sum())
    after = _squared(grams, of_tensor)
    change = _squared(grams, of_tensor - 1)
    return {
        "tasks": list(names),
        "cosines": _rounded(cosines[above]),  # of the pairs (0, 1), (0, 2), ..., (1, 2), ...
        "layers": layers,
        "pairs_in_conflict": round(float((cosines[above] < 0).mean()), DIGITS),
        "tensors_in_conflict": round(float((grams[:, *above] < 0).any(axis=1).mean()), DIGITS),
        "norms": [float(f"{norm:.4g}") for norm in norms],
        "norm_ratio": _ratio(after, before),
        "change": _ratio(change, before),
        "weights": _rounded(weights.mean(axis=0)),
    }


def _by_part(combined: Combined) -> dict[str, Floats]:
    """The Gram of each layer, of the embeddings and of the pooler."""
    parts: dict[str, Floats] = {}
    for name, gram in zip(combined.names, combined.grams.numpy(), strict=True):
        part = part_of(name)
        parts[part] = parts[part] + gram if part in parts else gram
    return parts


def _squared(grams: Floats, weights: Floats) -> float:
    return max(float(np.einsum("pk,pkl,pl->", weights, grams, weights)), 0.0)


def _ratio(squared: float, to: float) -> float:
    """Of two norms; 0 where there is nothing to compare with."""
    return round((squared / to) ** 0.5, DIGITS) if to > 0 else 0.0


def _rounded(values: Floats) -> list[float]:
    return [round(float(value), DIGITS) for value in values]


def add_to_tally(tally: Tally, event: Mapping[str, Any]) -> None:
    """Count an event in; a checkpoint keeps the sums."""
    counted = {
        "looks": 1.0,
        "cosine": sum(event["cosines"]) / len(event["cosines"]),
        **{key: event[key] for key in ("pairs_in_conflict", "tensors_in_conflict", "norm_ratio", "change")},
    }
    for key, value in counted.items():
        tally[key] = tally.get(key, 0.0) + value


def summary(tally: Tally, recipe: Recipe, folder: Path, mean: float | None) -> dict[str, Any]:
    """The means over all looks and a sentence on them; nothing of a run that never looked."""
    looks = tally.get("looks", 0)
    if not looks:
        return {}
    found = {key: round(value / looks, DIGITS) for key, value in tally.items() if key != "looks"}
    return {"looks": int(looks), **found, "verdict": _verdict(found, int(looks), recipe, folder, mean)}


def _verdict(found: Tally, looks: int, recipe: Recipe, folder: Path, mean: float | None) -> str:
    seen = (
        f"In {looks:,} look{'s' * (looks > 1)} at the tasks' gradients {found['pairs_in_conflict']:.0%} of "
        f"the pairs were in conflict, with a mean cosine of {found['cosine']:+.2f}"
    )
    kinds = list(dict.fromkeys(phase.combine.kind for phase in recipe.phases if phase.combine.kind != "sum"))
    if not kinds:
        little = found["pairs_in_conflict"] < 0.25 and found["cosine"] > -0.05
        rest = "a combiner has little to mend" if little else "a combiner such as 'pcgrad' may be worth a try"
        return f"{seen}; {rest}."
    moved = f"{' and '.join(kinds)} moved the update by {found['change']:.0%} of the plain sum's length"
    sums = plain_runs(recipe, folder)
    if not sums or mean is None:
        unknown = (
            "no run beside this one has the same recipe with a plain sum, so whether it helped is not known"
        )
        return f"{seen}; {moved}; {unknown}."
    name, other = sums[0]
    return f"{seen}; {moved}; with a plain sum ({name}) the dev mean is {other:.4f}, here it is {mean:.4f}."


def plain_runs(recipe: Recipe, folder: Path) -> list[tuple[str, float]]:
    """Finished runs beside this one that differ in nothing but a plain sum, with their dev means."""
    own = _without_combiner(tomllib.loads(recipe.to_toml()))
    found = []
    for path in sorted(folder.absolute().parent.glob("*/recipe.toml"))[:MAX_RUNS]:
        try:
            written = tomllib.loads(path.read_text(encoding="utf-8"))
            plain = all(phase.get("combine", "sum") == "sum" for phase in written["phases"])
            if plain and _without_combiner(written) == own:
                found.append((path.parent.name, _mean_of(path.parent)))
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            continue  # a folder that is no finished run has nothing to compare with
    return found


def _without_combiner(written: dict[str, Any]) -> dict[str, Any]:
    phases = [{key: value for key, value in phase.items() if key != "combine"} for phase in written["phases"]]
    return {**written, "phases": phases}


def _mean_of(run: Path) -> float:

    return float(json.loads((run / "scores.json").read_bytes())["mean"])
