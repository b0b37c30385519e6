"""The whole model: one encoder and a head for each task."""

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor, nn

from polytask.batch import Batch
from polytask.errors import RecipeError
from polytask.model.dropout import Dropout
from polytask.model.encoder import Encoder
from polytask.model.heads import build_head, mean_pool
from polytask.tasks import Task


@final
class MultitaskModel(nn.Module):
    """An encoder shared by all tasks and what belongs to each task alone."""

    def __init__(self, encoder: Encoder, tasks: Mapping[str, Task], generator: torch.Generator) -> None:
        super().__init__()
        for task in tasks.values():
            if task.pooling == "pooler" and encoder.pooler is None:
                raise RecipeError(
                    f"tasks.{task.name}.pooling is 'pooler', but a {encoder.config.architecture} encoder "
                    "has none: use 'cls' or 'mean'."
                )
        self.tasks = dict(tasks)
        self.encoder = encoder
        self.heads = nn.ModuleDict(
            {module_name(name): build_head(task, encoder.config, generator) for name, task in tasks.items()}
        )

    def forward(
        self, batch: Batch, dropout: Dropout | None = None, frozen_layers: int = 0
    ) -> dict[str, Tensor]:
        """Each task's outputs [rows, num_outputs]; `dropout=None` is evaluation (see `Encoder.forward`)."""
        states = self.encoder.states(batch.tokens, dropout, frozen_layers=frozen_layers)
        outputs = {}
        for name, rows in batch.slices.items():
            own_dropout = (
                Dropout(self.tasks[name].dropout, dropout.generator) if dropout is not None else None
            )
            own_states = [state[rows] for state in states]
            head = self.heads[module_name(name)]
            outputs[name] = head(self.encoder, own_states, batch.tokens.rows(rows), own_dropout)
        return outputs

    def embed(self, batch: Batch) -> Tensor:
        """The mean of the last layer's token states, [B, D]."""
        return mean_pool(self.encoder(batch.tokens), batch.tokens)

    def own_parameters(self, task: str) -> list[nn.Parameter]:
        """What belongs to one task alone."""
        return list(self.heads[module_name(task)].parameters())


def module_name(task: str) -> str:
    """A task's key in a ModuleDict, which refuses names like `type` or `train` that its class already has."""
    return f"task-{task}"
