"""What a phase comes to once the data is known: its tasks, updates, schedule and trainable part."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from polytask.errors import RecipeError
from polytask.model.multitask import MultitaskModel, module_name
from polytask.recipe import Recipe
from polytask.recipe_phases import TRAIN_WORD, PhaseRecipe
from polytask.train.samplers import Progress, Sampler

OWN_PARTS = ("heads", "adapters")
ABOVE_LAYERS = ("encoder.pooler.", "encoder.final_norm.")


@dataclass(frozen=True)
class Phase:
    """One phase of a recipe, resolved."""

    number: int
    recipe: PhaseRecipe
    tasks: tuple[str, ...]
    sizes: tuple[int, ...]  # training rows of each task
    updates_per_epoch: int
    sampler: Sampler

    @property
    def updates(self) -> int:
        return self.updates_per_epoch * self.recipe.epochs

    def progress(self, update: int) -> Progress:
        epoch = update // self.updates_per_epoch
        return Progress(update, epoch, self.recipe.epochs, self.updates)

    def schedule(self) -> list[dict[str, Any]]:
        """Epoch by epoch, each task's expected share of the draws, and how often each of its rows comes."""
        rows: list[dict[str, Any]] = []
        draws = self.sampler.draws_per_update * self.updates_per_epoch
        batches = [-(-size // self.recipe.batch_size) for size in self.sizes]
        for epoch in range(self.recipe.epochs):
            share = dict(zip(self.tasks, self._shares(epoch), strict=True))
            passes = {
                task: share[task] * draws / held for task, held in zip(self.tasks, batches, strict=True)
            }
            rows.append({"epoch": epoch + 1, "share": _rounded(share), "passes": _rounded(passes)})
        return rows

    def _shares(self, epoch: int) -> list[float]:
        """The expected shares of an epoch; their mean where they change with every update."""
        first = epoch * self.updates_per_epoch
        changing = self.recipe.sampler.per == "step"
        each = range(first, first + (self.updates_per_epoch if changing else 1))
        found = [self.sampler.shares(self.progress(update)) for update in each]
        return [sum(shares) / len(found) for shares in zip(*found, strict=True)]


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 6) for name, value in values.items()}


def plan_phase(recipe: Recipe, number: int, train_rows: Mapping[str, int]) -> Phase:
    """Resolve a phase. Unless set, an epoch draws as many batches as the tasks hold together."""
    phase = recipe.phases[number]
    tasks = phase.tasks or tuple(recipe.tasks)
    sizes = tuple(train_rows[task] for task in tasks)
    sampler = Sampler(phase.sampler, sizes, (recipe.seed, number), tasks)
    updates_per_epoch = phase.steps_per_epoch or sampler.updates_per_epoch(phase.batch_size)
    return Phase(number, phase, tasks, sizes, updates_per_epoch, sampler)


def first_position(recipe: Recipe, number: int, task: str, size: int, drawn: int) -> int:
    """Where a phase begins in the order of a task's rows, of which `drawn` batches came before it.

    Phases of one batch size share one order. A phase of another cuts it anew, and begins with the next pass.
    """
    before = [phase for phase in recipe.phases[:number] if task in (phase.tasks or recipe.tasks)]
    old, new = (before[-1] if before else recipe.phases[number]).batch_size, recipe.phases[number].batch_size
    if old == new:
        return drawn
    passes_begun = -(-drawn // -(-size // old))
    return passes_begun * -(-size // new)


def is_staged(recipe: Recipe) -> bool:
    """Whether some phase leaves tasks out, so that what it does to them is worth knowing."""
    return any(set(phase.tasks or recipe.tasks) != set(recipe.tasks) for phase in recipe.phases)


@dataclass(frozen=True)
class TrainablePart:
    """What a phase moves, and how much of the encoder below it needs no gradient."""

    named: Mapping[str, nn.Parameter]
    frozen_layers: int  # as `Encoder.states` takes it
    num_layers: int  # of the encoder

    @property
    def parameters(self) -> tuple[nn.Parameter, ...]:
        return tuple(self.named.values())

    def frozen_at(self, phase: Phase, update: int) -> int:
        """The frozen layers of one update: with `unfreeze`, layers come in one by one from the top."""
        span = phase.recipe.unfreeze * phase.updates
        if update >= span:
            return self.frozen_layers
        trained = int(update / span * (self.num_layers + 1))  # of the layers and, last, the embeddings
        return max(self.frozen_layers, self.num_layers + 1 - trained)


def select_trainable(model: MultitaskModel, phase: Phase, rehearsed: Sequence[str] = ()) -> TrainablePart:
    """Switch gradients on for what the phase trains and off for everything else.

    Heads and task-specific layers of tasks that are not in the phase never move, but for those of `rehearsed`
    tasks, whose rows are replayed.
    """
    model.adapters_on = phase.recipe.adapters and len(model.adapters) > 0
    moving = (*phase.tasks, *rehearsed)
    own = tuple(f"{part}.{module_name(task)}." for part in OWN_PARTS for task in moving)
    candidates = {
        name: parameter
        for name, parameter in model.named_parameters()
        if name.startswith(("encoder.", *own)) and (model.adapters_on or not name.startswith("adapters."))
    }
    _check_words(phase, model, candidates)
    chosen = {name: candidates[name] for name in candidates if _is_chosen(name, phase, model)}
    if phase.recipe.memory.projects and not any(name.startswith("encoder.") for name in chosen):
        key, kind, train = f"phases.{phase.number}", phase.recipe.memory.kind, phase.recipe.train
        raise RecipeError(
            f"{key}.memory is {kind!r}, which holds the encoder to earlier tasks: "
            f"{key}.train should move some of it. Found {', '.join(train)}."
        )
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in chosen)
    return TrainablePart(chosen, _frozen_layers(model, chosen), model.encoder.config.num_layers)


def _check_words(phase: Phase, model: MultitaskModel, candidates: Iterable[str]) -> None:
    """Refuse a pattern that names nothing and more layers than there are."""
    key, num_layers = f"phases.{phase.number}.train", model.encoder.config.num_layers
    for word in phase.recipe.train:
        if len(phase.recipe.train) == 1 and TRAIN_WORD.fullmatch(word):
            if word.startswith("top-") and int(word.removeprefix("top-")) > num_layers:
                raise RecipeError(
                    f"{key} should name at most the {num_layers} layers there are. Found {word!r}."
                )
        elif not any(fnmatchcase(name, word) for name in candidates):
            raise RecipeError(
                f"{key} should match parameters of the model. Found {word!r}, which matches none."
            )


def _is_chosen(name: str, phase: Phase, model: MultitaskModel) -> bool:
    """Whether `train` of the phase's recipe names a parameter."""
    own = not name.startswith("encoder.")
    match phase.recipe.train:
        case ("all",):
            return True
        case ("heads",):
            return name.startswith("heads.")
        case ("adapters",):  # what a task has alone: without its head an adapter could serve nothing
            return own
        case (word,) if word.startswith("top-"):
            bottom = model.encoder.config.num_layers - int(word.removeprefix("top-"))
            layer = layer_of(name)
            return own or name.startswith(ABOVE_LAYERS) or (layer is not None and layer >= bottom)
        case patterns:
            return any(fnmatchcase(name, pattern) for pattern in patterns)


def _frozen_layers(model: MultitaskModel, chosen: Iterable[str]) -> int:
    """The embeddings and layers below everything that is trained, which need no gradient."""
    lowest = model.encoder.config.num_layers + 1
    for name in chosen:
        layer = layer_of(name)
        if name.startswith("encoder.embeddings."):
            return 0
        if layer is not None:
            lowest = min(lowest, layer + 1)
        if name.startswith("adapters."):
            lowest = min(lowest, model.first_adapted + 1)
    return lowest


def layer_of(name: str) -> int | None:
    """The number of the encoder layer that a parameter belongs to; None for what is in no layer."""
    found = re.match(r"encoder\.layers\.([0-9]+)\.", name)
    return int(found[1]) if found else None
