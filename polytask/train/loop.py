"""The loop: every phase of a recipe, update by update, to the model that does best on the dev rows."""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from polytask.data.batches import BatchStream, Collator
from polytask.data.prepare import TaskData
from polytask.evaluate.scoring import TaskScore, answer_table, mean_score, score_answers, scores_to_dict
from polytask.model.compute import Compute
from polytask.model.dropout import Dropout
from polytask.model.multitask import MultitaskModel
from polytask.recipe import Recipe
from polytask.tasks import loss_per_row
from polytask.train.checkpoint import (
    load_checkpoint,
    pack_optimizer,
    save_best,
    save_checkpoint,
    unpack_optimizer,
)
from polytask.train.events import EventLog
from polytask.train.interrupt import StopRequest
from polytask.train.optimizer import Schedule, build_optimizer, clip_gradients
from polytask.train.phases import Phase, TrainablePart, plan_phase, select_trainable

LOG_EVERY = 10  # updates to an `update` event
CHECKPOINT_SECONDS = 300.0  # of training between checkpoints, besides one at the end of every epoch


class TrainingError(RuntimeError):
    """Training cannot go on: the loss is no longer a number."""


class TrainingStopped(KeyboardInterrupt):
    """The user asked for a stop; the run folder holds a checkpoint of the last finished update."""


@dataclass
class State:
    """Where a run stands, besides its tensors."""

    phase: int = 0
    update: int = 0  # finished updates of this phase
    total_updates: int = 0
    seconds: float = 0.0  # of training, without evaluation
    tokens: int = 0  # real ones trained on
    positions: dict[str, int] = field(default_factory=dict)  # batches drawn from each task
    drawn: dict[str, int] = field(default_factory=dict)  # rows drawn from each task
    best: dict[str, Any] | None = None  # phase, epoch, update, mean and scores of the best evaluation
    epochs_without_gain: int = 0
    finished: bool = False


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
        self.state = State()
        self.generator = torch.Generator(compute.device).manual_seed(recipe.seed)
        self._restored: dict[str, Tensor] = {}
        self._stop = StopRequest()

    @property
    def checkpoints(self) -> Path:
        return self.run / "checkpoints"

    def resume(self) -> bool:
        """Go on from the newest sound checkpoint of the run folder; False where there is none."""
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
        self.generator.set_state(tensors["generator"])
        return True

    def train(self) -> None:
        """Run every phase that is not finished yet."""
        sizes = {name: data.train.num_rows for name, data in self.data.items() if data.train is not None}
        with self._stop.listening():
            for number in range(self.state.phase, len(self.recipe.phases)):
                self.state.phase = number
                self._run_phase(plan_phase(self.recipe, number, sizes))
                self.state.update = 0
                self.state.epochs_without_gain = 0
        self.state.finished = True

    def _run_phase(self, phase: Phase) -> None:
        part = select_trainable(self.model, phase)
        optimizer = build_optimizer(part.parameters, phase.recipe)
        unpack_optimizer(optimizer, self._restored)
        self._restored = {}
        schedule = Schedule(phase.recipe, phase.updates)
        streams = {task: self._stream(task, phase.recipe.batch_size) for task in phase.tasks}
        if self.state.update == 0:
            self.log.write(
                "phase",
                phase=phase.number,
                train=", ".join(phase.recipe.train),
                tasks=list(phase.tasks),
                epochs=phase.recipe.epochs,
                updates=phase.updates,
                update=self.state.total_updates,
                schedule=phase.schedule(),
            )
        losses = LossLog()
        saved_at = self.state.seconds
        while self.state.update < phase.updates and not self._out_of_patience(phase):
            started = time.perf_counter()
            lr = schedule(self.state.update)
            for group in optimizer.param_groups:
                group["lr"] = lr
            self._update(phase, part, streams, losses)
            clip_gradients(part.parameters, phase.recipe.clip)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            self.state.update += 1
            self.state.total_updates += 1
            self.state.positions.update({task: stream.position for task, stream in streams.items()})
            self.state.seconds += time.perf_counter() - started
            epoch_ends = self.state.update % phase.updates_per_epoch == 0
            if epoch_ends or self.state.update % LOG_EVERY == 0:
                self._log_update(phase, lr, losses)
            if epoch_ends:
                self._evaluate(phase)
            if epoch_ends or self._stop.asked or self.state.seconds - saved_at >= CHECKPOINT_SECONDS:
                saved_at = self.state.seconds
                self._checkpoint(optimizer)
            if self._stop.asked:
                raise TrainingStopped(
                    f"Stopped after update {self.state.total_updates}; --resume goes on from there."
                )

    def _out_of_patience(self, phase: Phase) -> bool:
        return 0 < phase.recipe.patience <= self.state.epochs_without_gain

    def _update(
        self, phase: Phase, part: TrainablePart, streams: Mapping[str, BatchStream], losses: "LossLog"
    ) -> None:
        """The draws of one update: their gradients, added up."""
        dropout = Dropout(self.recipe.dropout, self.generator)
        self.model.train()
        for number in phase.sampler.draw(phase.progress(self.state.update)):
            task = phase.tasks[number]
            table = self.data[task].train
            assert table is not None
            rows = streams[task].next()
            batch = self.collator.batch(self.data[task].task, table, rows).to(self.compute.device)
            with self.compute.autocast():
                outputs = self.model(batch, dropout, part.frozen_layers)[task]
            loss = loss_per_row(self.data[task].task, outputs, batch.targets[task]).mean()
            loss.backward()  # type: ignore[no-untyped-call]
            losses.add(task, loss.detach())
            self.state.tokens += batch.num_tokens
            self.state.drawn[task] = self.state.drawn.get(task, 0) + len(rows)

    def _evaluate(self, phase: Phase) -> None:
        scores = self.score("dev")
        if not scores:  # without dev rows the last weights are the result
            return
        mean = mean_score(scores)
        better = self.state.best is None or mean > self.state.best["mean"]
        epoch = self.state.update // phase.updates_per_epoch
        if better:
            save_best(self.checkpoints, self.state.total_updates, self.model.state_dict())
            self.state.best = {
                "phase": phase.number,
                "epoch": epoch,
                "update": self.state.total_updates,
                "mean": mean,
                "adapters_on": self.model.adapters_on,
                "scores": scores_to_dict(scores),
            }
        self.state.epochs_without_gain = 0 if better else self.state.epochs_without_gain + 1
        self.log.write(
            "evaluate",
            phase=phase.number,
            epoch=epoch,
            update=self.state.total_updates,
            seconds=round(self.state.seconds, 3),
            tokens=self.state.tokens,
            scores={name: round(item.score, 6) for name, item in scores.items()},
            mean=round(mean, 6),
            best=better,
        )

    def score(self, split: str) -> dict[str, TaskScore]:
        """Scores of every task that has labelled rows in this split."""
        scores = {}
        for name, data in self.data.items():
            table = getattr(data, split)
            if table is not None and table.targets is not None:
                found = answer_table(self.model, data.task, table, self.collator, self.compute)
                scores[name] = score_answers(data.task, found, table)
        return scores

    def _log_update(self, phase: Phase, lr: float, losses: "LossLog") -> None:
        means = losses.take()
        for task, loss in means.items():
            if not math.isfinite(loss):
                raise TrainingError(
                    f"The loss of task {task!r} is {loss} at update {self.state.total_updates}: "
                    f"a lower phases.{phase.number}.lr (now {phase.recipe.lr:g}) may help."
                )
        self.log.write(
            "update",
            phase=phase.number,
            update=self.state.total_updates,
            epoch=(self.state.update - 1) // phase.updates_per_epoch + 1,
            seconds=round(self.state.seconds, 3),
            tokens=self.state.tokens,
            lr=lr,
            losses={task: round(loss, 6) for task, loss in means.items()},
        )

    def _checkpoint(self, optimizer: torch.optim.Optimizer) -> None:
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= pack_optimizer(optimizer)
        tensors["generator"] = self.generator.get_state()
        save_checkpoint(self.checkpoints, self.state.total_updates, tensors, asdict(self.state))
        self.log.write("checkpoint", phase=self.state.phase, update=self.state.total_updates)

    def _stream(self, task: str, batch_size: int) -> BatchStream:
        data = self.data[task]
        assert data.train is not None
        lengths = self.collator.lengths(data.task, data.train)
        stream = BatchStream(task, lengths, batch_size, self.recipe.seed)
        stream.position = self.state.positions.get(task, 0)
        return stream


@final
class LossLog:
    """Mean losses since the last event; kept as tensors so that a GPU is not waited for."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._counts: dict[str, int] = {}

    def add(self, task: str, loss: Tensor) -> None:
        self._sums[task] = self._sums[task] + loss if task in self._sums else loss
        self._counts[task] = self._counts.get(task, 0) + 1

    def take(self) -> dict[str, float]:
        """The means, task by task; starts anew."""
        means = {task: float(total) / self._counts[task] for task, total in self._sums.items()}
        self._sums, self._counts = {}, {}
        return means
