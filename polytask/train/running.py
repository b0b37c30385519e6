"""A phase under way: what its updates move, and one update from its draws to the optimiser's step."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from polytask.batch import Batch
from polytask.data.batches import BatchStream, Collator
from polytask.data.padding import Ints
from polytask.data.prepare import TaskData
from polytask.data.tokens import TokenTable
from polytask.errors import RecipeError
from polytask.model.compute import Compute
from polytask.model.multitask import MultitaskModel
from polytask.recipe import Recipe
from polytask.tasks import Task
from polytask.train.averages import Average
from polytask.train.checkpoint import pack_optimizer, unpack_optimizer
from polytask.train.combiners.build import Combiner
from polytask.train.conflict import add_to_tally, measure
from polytask.train.gradients import Combined, GradientEngine
from polytask.train.loss_weights import LossWeights
from polytask.train.losses import DrawLoss
from polytask.train.memory import Remembered
from polytask.train.optimizer import Schedule, build_optimizer, set_rate
from polytask.train.parallel import World
from polytask.train.phases import Phase, select_trainable
from polytask.train.projection import hold_to_memory
from polytask.train.rehearsal import Rehearsal
from polytask.train.state import LossLog, State, TrainingError

COMBINER_STREAM, MASK_STREAM = 1, 4  # keep these random numbers apart from the sampler's


@dataclass(frozen=True)
class Material:
    """What all phases of a run work with."""

    recipe: Recipe
    model: MultitaskModel
    data: Mapping[str, TaskData]
    collator: Collator
    compute: Compute
    world: World
    generator: torch.Generator  # of dropout masks and noise, begun anew in each update

    def stream(self, task: str, batch_size: int, position: int) -> BatchStream:
        """The order of a task's training rows, from a batch on."""
        lengths = self.collator.lengths(self.data[task].task, train_table(self.data[task]))
        stream = BatchStream(task, lengths, batch_size, self.recipe.seed)
        stream.position = position
        return stream

    def begin_update(self, phase: int, update: int) -> None:
        """Dropout masks are a function of seed, phase, update and process, so no state has to be saved."""
        self.model.train()
        seed = np.random.SeedSequence([self.recipe.seed, phase, update, self.world.rank, MASK_STREAM])
        self.generator.manual_seed(int(seed.generate_state(1, np.uint64)[0]))

    def batches(
        self, task: Task, table: TokenTable, rows: Ints, limit: int | None
    ) -> Iterator[tuple[Batch, float]]:
        """This process's rows of a draw in parts of at most `limit`, each with its share of the draw."""
        own = rows[self.world.rank :: self.world.size]
        size = limit or len(rows)
        for start in range(0, len(own), size):
            part = own[start : start + size]
            yield self.collator.batch(task, table, part).to(self.compute.device), len(part) / len(rows)


@final
class RunningPhase:
    """What one phase trains and keeps between its updates."""

    def __init__(
        self, phase: Phase, material: Material, state: State, remembered: Sequence[Remembered] = ()
    ) -> None:
        self.phase = phase
        self.losses = LossLog()
        self._material = material
        self._state = state
        recipe, model = phase.recipe, material.model
        tables = {item.task.name: item.table(material.collator.tokenizer) for item in remembered}
        old = [item.task for item in remembered]
        seed = (material.recipe.seed, phase.number)
        self._rehearsal = Rehearsal(recipe.memory, old, tables, recipe.batch_size, seed)
        replayed = self._rehearsal.names if recipe.memory.kind == "replay" else ()
        self.part = select_trainable(model, phase, replayed)
        self._loss = DrawLoss(model, recipe, material.compute, material.recipe.dropout, material.generator)
        tasks = {name: material.data[name].task for name in phase.tasks}
        self.loss_weights = LossWeights(recipe.loss_weights, tasks, material.world)
        self.loss_weights.to(material.compute.device)
        learned = [(p, self.loss_weights.lr) for p in self.loss_weights.parameters() if p.requires_grad]
        self._optimizer = build_optimizer(self.part.named, recipe, self.part.num_layers, learned)
        self._schedule = Schedule(recipe, phase.updates)
        self.average = Average(recipe.average, self.part.named)
        self._engine = GradientEngine(
            model,
            self.part.named,
            scope=recipe.combine.scope or recipe.memory.scope or "whole",
            lean="lean" in (recipe.combine.mode, recipe.memory.mode),
            world=material.world,
        )
        num_tasks = len(phase.tasks) + len(self._rehearsal.tasks)
        self._combiner = Combiner(recipe.combine, self._engine.num_groups, num_tasks)
        self._streams = {
            task: material.stream(task, recipe.batch_size, state.positions.get(task, 0))
            for task in phase.tasks
        }

    @property
    def rate(self) -> float:
        """The learning rate of the update that was made last."""
        return self._schedule(self._state.update - 1)

    def update(self) -> dict[str, Any]:
        """Make one update; returns how its tasks' gradients agree, if this is an update to look at that."""
        state, phase = self._state, self.phase
        progress = phase.progress(state.update)
        draws = phase.sampler.draw(progress)
        counts = Counter(draws)
        looked_at = phase.recipe.conflict_every
        look = looked_at > 0 and state.update % looked_at == 0 and len(counts) > 1
        self._material.begin_update(phase.number, state.update)
        combines = self._combiner.kind != "sum" and len(counts) + len(self._rehearsal.tasks) > 1
        self._engine.begin(separate=combines or self._rehearsal.projects or look)
        seen: list[tuple[int, Batch, float]] = []
        for number in draws:
            factor = phase.sampler.loss_factor(progress, counts[number])
            seen.extend(self._draw(number, factor))
        self._rehearse()
        weigh = self._combine if combines else self._project if self._rehearsal.projects else None
        combined = self._engine.finish(weigh, phase.recipe.clip, self.loss_weights.common_factor())
        self._material.world.sum_gradients(list(self.loss_weights.parameters()))
        set_rate(self._optimizer, self._schedule(state.update))
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.loss_weights.end_update(self._losses_now(seen) if self.loss_weights.kind == "famo" else None)
        state.update += 1
        state.total_updates += 1
        state.positions.update({task: stream.position for task, stream in self._streams.items()})
        self.average.add(state.update / phase.updates)
        if state.update % phase.updates_per_epoch == 0:
            self.loss_weights.end_epoch()
        return self._look(combined) if look and combined is not None else {}

    def _look(self, combined: Combined) -> dict[str, Any]:
        """What an event says of the update's gradients; counted for the verdict at the end."""
        names = [*self.phase.tasks, *(f"memory of {name}" for name in self._rehearsal.names)]
        seen = measure(combined, [names[task] for task in combined.tasks])
        if seen:
            add_to_tally(self._state.conflict, seen)
        return seen

    def _draw(self, number: int, factor: float) -> Iterator[tuple[int, Batch, float]]:
        """Forward and backward of one draw, in parts that fit."""
        name = self.phase.tasks[number]
        data = self._material.data[name]
        table = train_table(data)
        rows = self._streams[name].next()
        frozen = self.part.frozen_at(self.phase, self._state.update)
        self._engine.expect(number)
        for batch, share in self._material.batches(data.task, table, rows, self.phase.recipe.micro_batch):
            loss, shown = self._loss(data.task, batch, frozen)
            if not loss.requires_grad:
                raise RecipeError(
                    f"phases.{self.phase.number}.train moves nothing that task {name!r} depends on."
                )
            weighted = self.loss_weights.weigh(number, loss, share, shown)
            self._engine.backward(number, weighted * factor if factor != 1 else weighted)
            self.losses.add(name, shown, share)
            yield number, batch, share
        self._state.tokens += self._material.collator.padder.num_tokens(data.task, table, rows)
        self._state.drawn[name] = self._state.drawn.get(name, 0) + len(rows)

    def _rehearse(self) -> None:
        """Forward and backward of what the update draws from memory."""
        phase, memory = self.phase, self._rehearsal
        frozen = self.part.frozen_at(phase, self._state.update)
        limit = phase.recipe.micro_batch or phase.recipe.batch_size
        for number, rows, factor in memory.draw(self._state.update):
            task = memory.tasks[number]
            table, row = memory.tables[task.name], len(phase.tasks) + memory.row(number)
            self._engine.expect(row)
            for batch, share in self._material.batches(task, table, rows, limit):
                loss, shown = self._loss(task, batch, frozen)
                self._engine.backward(row, loss * (share * factor))
                self.losses.add(task.name, shown, share)
            self._state.tokens += self._material.collator.padder.num_tokens(task, table, rows)

    def _combine(self, grams: Tensor, tasks: Sequence[int]) -> Tensor:
        """The combiner's weights of an update's tasks."""
        broken = ~torch.isfinite(grams).all(dim=0).diagonal()
        if bool(broken.any()):
            names = [*self.phase.tasks, *self._rehearsal.names]
            found = ", ".join(repr(names[tasks[row]]) for row in broken.nonzero().flatten().tolist())
            raise TrainingError(
                f"The gradient of task {found} is not finite at update {self._state.total_updates + 1}: "
                f"a lower phases.{self.phase.number}.lr (now {self.phase.recipe.lr:g}) may help."
            )
        random = combiner_random(self._material.recipe.seed, self.phase.number, self._state.update)
        return self._combiner.weigh(grams, tasks, random)

    def _project(self, grams: Tensor, tasks: Sequence[int]) -> Tensor:
        """The weights of an update's tasks and of its memory, which they may not go against."""
        return hold_to_memory(self.phase.recipe.memory, len(self.phase.tasks))(grams, tasks)

    def _losses_now(self, seen: Sequence[tuple[int, Batch, float]]) -> dict[int, float]:
        """The tasks' own losses on the same batches after the update, under the same dropout masks."""
        self._material.begin_update(self.phase.number, self._state.update)
        frozen = self.part.frozen_at(self.phase, self._state.update)
        sums: dict[int, float] = {}
        shares: dict[int, float] = {}
        for number, batch, share in seen:
            task = self._material.data[self.phase.tasks[number]].task
            sums[number] = sums.get(number, 0.0) + self._loss.again(task, batch, frozen) * share
            shares[number] = shares.get(number, 0.0) + share
        return {number: total / shares[number] for number, total in sums.items()}

    def close(self) -> None:
        """End the phase: its average, if it kept one, becomes the weights."""
        self.average.settle()
        self._engine.close()

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps of the phase, besides the model."""
        weights = {f"loss_weights.{name}": value for name, value in self.loss_weights.state_dict().items()}
        return pack_optimizer(self._optimizer) | weights | self.average.tensors() | self._combiner.tensors()

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """The inverse of `tensors`; nothing where there are none."""
        if not tensors:
            return
        unpack_optimizer(self._optimizer, tensors)
        lead = "loss_weights."
        self.loss_weights.load_state_dict(
            {name.removeprefix(lead): value for name, value in tensors.items() if name.startswith(lead)}
        )
        self.average.restore(tensors)
        self._combiner.restore(tensors)


def train_table(data: TaskData) -> TokenTable:
    """A task's training rows."""
    assert data.train is not None, "every task of a recipe has training rows"
    return data.train


def combiner_random(seed: int, phase: int, update: int) -> np.random.Generator:
    """The random numbers of one update's combiner, a function of seed, phase and update."""
    return np.random.default_rng([seed, phase, update, COMBINER_STREAM])
