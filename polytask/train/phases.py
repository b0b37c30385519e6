"""What a phase comes to once the data is known: its tasks, updates, schedule and trainable part."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from polytask.model.multitask import MultitaskModel
from polytask.recipe import PhaseRecipe, Recipe
from polytask.train.samplers import Progress, Sampler, task_shares


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
        return Progress(update, update // self.updates_per_epoch, self.recipe.epochs)

    def schedule(self) -> list[dict[str, object]]:
        """The expected share of the draws for each task, epoch by epoch."""
        rows: list[dict[str, object]] = []
        for epoch in range(self.recipe.epochs):
            progress = Progress(epoch * self.updates_per_epoch, epoch, self.recipe.epochs)
            shares = task_shares(self.recipe.sampler, self.sizes, progress)
            share = {task: round(value, 6) for task, value in zip(self.tasks, shares, strict=True)}
            rows.append({"epoch": epoch + 1, "share": share})
        return rows


def plan_phase(recipe: Recipe, number: int, train_rows: Mapping[str, int]) -> Phase:
    """Resolve a phase. Unless set, an epoch draws as many batches as the tasks hold together."""
    phase = recipe.phases[number]
    tasks = phase.tasks or tuple(recipe.tasks)
    sizes = tuple(train_rows[task] for task in tasks)
    sampler = Sampler(phase.sampler, sizes, (recipe.seed, number))
    batches = sum(-(-size // phase.batch_size) for size in sizes)
    updates_per_epoch = phase.steps_per_epoch or max(1, round(batches / sampler.draws_per_update))
    return Phase(number, phase, tasks, sizes, updates_per_epoch, sampler)


@dataclass(frozen=True)
class TrainablePart:
    """What a phase moves, and how much of the encoder below it needs no gradient."""

    parameters: tuple[nn.Parameter, ...]
    frozen_layers: int  # as `Encoder.forward` takes it


def select_trainable(model: MultitaskModel, phase: Phase) -> TrainablePart:
    """Switch gradients on for what the phase trains and off for everything else."""
    layers = model.encoder.config.num_layers
    own = [parameter for task in phase.tasks for parameter in model.own_parameters(task)]
    shared: list[nn.Parameter] = []
    match phase.recipe.train:
        case "all":
            shared, frozen_layers = list(model.encoder.parameters()), 0
        case "heads" | "adapters":
            frozen_layers = layers + 1
        case top:
            kept = min(int(top.removeprefix("top-")), layers)
            frozen_layers = layers - kept + 1
            for module in [*model.encoder.layers[layers - kept :], model.encoder.pooler]:
                shared.extend(module.parameters() if module is not None else ())
    chosen = (*shared, *own)
    model.requires_grad_(False)
    for parameter in chosen:
        parameter.requires_grad_(True)
    return TrainablePart(chosen, frozen_layers)
