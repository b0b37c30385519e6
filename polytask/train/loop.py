"""The loop: every phase of a recipe, update by update, to the model that does best on the dev rows."""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from polytask.data.batches import Collator
from polytask.data.prepare import TaskData
from polytask.data.tokens import TokenTable
from polytask.evaluate.network import NetworkScorer
from polytask.evaluate.scoring import (
    Answers,
    TaskScore,
    mean_score,
    output_tasks,
    score_answers,
    scores_to_dict,
)
from polytask.model.compute import Compute
from polytask.model.multitask import MultitaskModel
from polytask.recipe import Recipe
from polytask.tasks import Task, answers
from polytask.train.checkpoint import (
    forget_unfinished,
    load_best,
    load_checkpoint,
    save_best,
    save_checkpoint,
)
from polytask.train.events import EventLog
from polytask.train.interrupt import StopRequest
from polytask.train.keeping import keep, settings_after
from polytask.train.memory import Remembered, read_memory, write_memory
from polytask.train.parallel import World
from polytask.train.phases import Phase, first_position, is_staged, plan_phase
from polytask.train.running import Material, RunningPhase
from polytask.train.state import State, TrainingError, TrainingStopped

LOG_EVERY = 10  # updates to an `update` event


@final
class Training:
    """One run of the loop: a model, its data, and what moves between updates."""

    def __init__(
        self,
        recipe: Recipe,
        model: MultitaskModel,
        data: Mapping[str, TaskData],
        collator: Collator,
        compute: Compute,
        run: Path,
        log: EventLog,
    ) -> None:
        self.recipe = recipe
        self.model = model.to(compute.device)
        self.data = data
        self.collator = collator
        self.compute = compute
        self.run = run
        self.log = log
        self.world = World()
        self.state = State()
        self._restored: dict[str, Tensor] = {}
        self._stop = StopRequest()

    @property
    def checkpoints(self) -> Path:
        return self.run / "checkpoints"

    def resume(self) -> bool:
        """Go on from the newest sound checkpoint of the run folder; False where there is none."""
        if self.world.leads:
            forget_unfinished(self.run)
        found = load_checkpoint(self.checkpoints)
        if found is None:
            return False
        tensors, state, damaged = found
        for message in damaged:
            self.log.write("warning", message=message)
        self.state = State(**state)
        self._restored = tensors
        weights = {key.removeprefix("model."): v for key, v in tensors.items() if key.startswith("model.")}
        self.model.load_state_dict(weights)
        return True

    def train(self) -> None:
        """Run every phase that is not finished yet."""
        sizes = {name: data.train.num_rows for name, data in self.data.items() if data.train is not None}
        generator = torch.Generator(self.compute.device)
        material = Material(
            self.recipe, self.model, self.data, self.collator, self.compute, self.world, generator
        )
        with self._stop.listening():
            for number in range(self.state.phase, len(self.recipe.phases)):
                self.state.phase = number
                if self.state.update == 0:
                    self._begin(number, sizes)
                phase = plan_phase(self.recipe, number, sizes)
                running = RunningPhase(phase, material, self.state, self._remembered(phase))
                try:
                    self._run(running)
                finally:
                    running.close()
                self._keep(phase, material)
                self._end(phase)
        self.state.finished = True

    def _begin(self, number: int, sizes: Mapping[str, int]) -> None:
        """Before a phase's first update: the weights and rows it starts from, and the matrix's first row."""
        best = self.state.best
        if self.recipe.phases[number].begin == "best" and best is not None:
            self.model.load_state_dict(load_best(self.checkpoints, best))
        for task in self.recipe.phases[number].tasks or self.recipe.tasks:
            drawn = self.state.positions.get(task, 0)
            self.state.positions[task] = first_position(self.recipe, number, task, sizes[task], drawn)
        if number == 0 and is_staged(self.recipe) and not self.state.stages:
            before = {name: item.score for name, item in self.score("dev").items()}
            self.state.stages.append({"tasks": [], "scores": before})

    def _end(self, phase: Phase) -> None:
        """After a phase's last update: its row of the score matrix, and a clean start for the next."""
        self.state.stages.append({"tasks": list(phase.tasks), "scores": self.state.scores})
        self.state.update = 0
        self.state.epochs_without_gain = 0
        self.state.best_of_phase = None

    def _remembered(self, phase: Phase) -> list[Remembered]:
        """What the phase rehearses: the memory of tasks of earlier phases, or of an earlier run."""
        if not phase.recipe.memory.rehearses:
            return []
        before = {
            name for each in self.recipe.phases[: phase.number] for name in each.tasks or self.recipe.tasks
        }
        before |= {name for name, data in self.data.items() if data.train is None}
        names = [name for name in self.data if name in before and name not in phase.tasks]
        tasks = {name: self.data[name].task for name in names}
        return list(read_memory(self.run, tasks, names).values())

    def _keep(self, phase: Phase, material: Material) -> None:
        """After a phase: rows of its tasks for phases and runs to come."""
        settings = settings_after(self.recipe, phase.number)
        with self.world.leader_first():  # the others read what it writes
            if settings.kind != "none" and self.world.leads:
                size, positions = phase.recipe.batch_size, self.state.positions
                kept = [keep(material, task, settings, size, positions.get(task, 0)) for task in phase.tasks]
                write_memory(self.run, kept)

    def _run(self, running: RunningPhase) -> None:
        """The updates of one phase, with their events, evaluations and checkpoints."""
        phase = running.phase
        running.restore(self._restored)
        self._restored = {}
        if self.state.update == 0:
            self._log_phase(phase)
        saved_at = self.state.seconds
        while self.state.update < phase.updates and not self._out_of_patience(phase):
            started = time.perf_counter()
            seen = running.update()
            self.state.seconds += time.perf_counter() - started
            if seen:
                self.log.write("conflict", phase=phase.number, update=self.state.total_updates, **seen)
            epoch_ends = self.state.update % phase.updates_per_epoch == 0
            if epoch_ends or self.state.update % LOG_EVERY == 0:
                self._log_update(running)
            if epoch_ends:
                with running.average.applied():
                    self._evaluate(phase)
            late = self.state.seconds - saved_at >= self.recipe.checkpoint_seconds
            late, stopping = self.world.any([late, self._stop.asked])
            if epoch_ends or stopping or late:
                saved_at = self.state.seconds
                self._checkpoint(running)
            if stopping:
                raise TrainingStopped(
                    f"Stopped after update {self.state.total_updates}; --resume goes on from there."
                )

    def _out_of_patience(self, phase: Phase) -> bool:
        return 0 < phase.recipe.patience <= self.state.epochs_without_gain

    def _evaluate(self, phase: Phase) -> None:
        found = self.score("dev")
        if not found:  # without dev rows the last weights are the result
            return
        scores = {name: item.score for name, item in found.items()}
        self.state.scores = scores
        mean = mean_score(found)
        epoch = self.state.update // phase.updates_per_epoch
        better = self.state.best is None or mean > self.state.best["mean"]
        if better:
            self.state.best = {
                "phase": phase.number,
                "epoch": epoch,
                "update": self.state.total_updates,
                "mean": mean,
                "adapters_on": self.model.adapters_on,
                "scores": scores_to_dict(found),
                "sha256": self._save_best(),
            }
        self._count_patience(phase, found)
        self.log.write(
            "evaluate",
            phase=phase.number,
            epoch=epoch,
            update=self.state.total_updates,
            seconds=round(self.state.seconds, 3),
            tokens=self.state.tokens,
            scores={name: round(score, 6) for name, score in scores.items()},
            mean=round(mean, 6),
            best=better,
        )

    def _save_best(self) -> str:
        """Keep the weights as they are now; returns their checksum, which only the leader knows at first."""
        checksum = ""
        if self.world.leads:
            checksum = save_best(self.checkpoints, self.state.total_updates, self.model.state_dict())
        told: str = self.world.told(checksum)
        return told

    def _count_patience(self, phase: Phase, found: Mapping[str, TaskScore]) -> None:
        """Epochs since the mean of the phase's own tasks was best."""
        own = {name: found[name] for name in phase.tasks if name in found}
        mean = mean_score(own) if own else 0.0
        gained = self.state.best_of_phase is None or mean > self.state.best_of_phase
        if gained:
            self.state.best_of_phase = mean
        self.state.epochs_without_gain = 0 if gained else self.state.epochs_without_gain + 1

    def score(self, split: str) -> dict[str, TaskScore]:
        """Scores of every task that has labelled rows in this split."""
        scores = {}
        for name, data in self.data.items():
            table = getattr(data, split)
            if table is not None and table.targets is not None:
                found = answers(data.task, self.outputs(data.task, table))
                scores[name] = score_answers(data.task, found, table)
        return scores

    def outputs(self, task: Task, table: TokenTable) -> Answers:
        """The head's outputs for all rows of a table, of which each process runs its part."""
        scorer = NetworkScorer(self.model, self.compute)
        part = self.world.rank, self.world.size
        found = output_tasks(scorer, [task], table, self.collator.padder, part)[task.name]
        self.world.sum([torch.from_numpy(found)])
        return found

    def _log_phase(self, phase: Phase) -> None:
        self.log.write(
            "phase",
            phase=phase.number,
            train=", ".join(phase.recipe.train),
            tasks=list(phase.tasks),
            epochs=phase.recipe.epochs,
            updates=phase.updates,
            update=self.state.total_updates,
            combine=phase.recipe.combine.kind,
            schedule=phase.schedule(),
        )

    def _log_update(self, running: RunningPhase) -> None:
        phase = running.phase
        means = running.losses.take(list(self.data), self.world)
        for task, loss in means.items():
            if not math.isfinite(loss):
                raise TrainingError(
                    f"The loss of task {task!r} is {loss} at update {self.state.total_updates}: "
                    f"a lower phases.{phase.number}.lr (now {phase.recipe.lr:g}) may help."
                )
        weights = running.loss_weights.shown(phase.tasks)
        self.log.write(
            "update",
            phase=phase.number,
            update=self.state.total_updates,
            epoch=(self.state.update - 1) // phase.updates_per_epoch + 1,
            seconds=round(self.state.seconds, 3),
            tokens=self.state.tokens,
            lr=running.rate,
            losses={task: round(loss, 6) for task, loss in means.items()},
            **({"loss_weights": weights} if weights else {}),
        )

    def _checkpoint(self, running: RunningPhase) -> None:
        if not self.world.leads:
            return
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= running.tensors()
        save_checkpoint(
            self.checkpoints, self.state.total_updates, tensors, asdict(self.state), self.recipe.checkpoints
        )
        self.log.write("checkpoint", phase=self.state.phase, update=self.state.total_updates)
