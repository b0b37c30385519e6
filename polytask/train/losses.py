"""The loss of a draw's rows: the task's own, and the smoothness terms that a phase adds."""

from typing import final

import torch
from torch import Tensor

from polytask.batch import Batch
from polytask.model.compute import Compute
from polytask.model.dropout import Dropout
from polytask.model.multitask import MultitaskModel
from polytask.recipe_phases import PhaseRecipe
from polytask.tasks import Task, loss_per_row
from polytask.train.smart import divergence, smart_term


@final
class DrawLoss:
    """Means over the rows of a batch of one task; masks and noise come from one generator."""

    def __init__(
        self,
        model: MultitaskModel,
        phase: PhaseRecipe,
        compute: Compute,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        self._model = model
        self._smart = phase.smart
        self._rdrop = phase.rdrop
        self._compute = compute
        self._dropout = Dropout(dropout, generator)
        self._generator = generator

    def __call__(self, task: Task, batch: Batch, frozen_layers: int) -> tuple[Tensor, Tensor]:
        """The loss to minimise, and the task's own part of it without a gradient."""
        outputs = self._answer(task, batch, frozen_layers)
        own = self._own(task, batch, outputs)
        loss, shown = own, own.detach()
        if self._rdrop > 0:
            again = self._answer(task, batch, frozen_layers)
            apart = divergence(task, outputs, again) / 2  # R-Drop's is the mean of the two directions
            loss = (own + self._own(task, batch, again)) / 2 + self._rdrop * apart
        if self._smart is not None:
            loss = loss + self._smart.weight * self._smoothness(task, batch, frozen_layers)
        return loss, shown

    @torch.no_grad()
    def again(self, task: Task, batch: Batch, frozen_layers: int) -> float:
        """The task's own loss without a gradient."""
        return float(self._own(task, batch, self._answer(task, batch, frozen_layers)))

    def _answer(self, task: Task, batch: Batch, frozen_layers: int) -> Tensor:
        with self._compute.autocast():
            outputs: Tensor = self._model(batch, self._dropout, frozen_layers)[task.name]
        return outputs

    @staticmethod
    def _own(task: Task, batch: Batch, outputs: Tensor) -> Tensor:
        return loss_per_row(task, outputs, batch.targets[task.name]).mean()

    def _smoothness(self, task: Task, batch: Batch, frozen_layers: int) -> Tensor:
        """SMART's term. In fp32: bf16 would round the tiny noise away."""
        assert self._smart is not None
        shape = (*batch.tokens.ids.shape, self._model.encoder.config.width)
        noise = torch.randn(shape, generator=self._generator, device=batch.tokens.ids.device)
        masks = self._generator.get_state()

        def answer(added: Tensor | None) -> Tensor:
            self._generator.set_state(masks)
            outputs: Tensor = self._model(batch, self._dropout, frozen_layers, added)[task.name]
            return outputs

        assert self._smart is not None
        return smart_term(self._smart, task, answer, noise)
