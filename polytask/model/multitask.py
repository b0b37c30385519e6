"""The whole model: one encoder, and the task-specific layers and head of each task."""

from collections.abc import Mapping
from typing import final

import torch
from torch import Tensor, nn

from polytask.batch import Batch
from polytask.choices import AdapterRecipe
from polytask.errors import RecipeError
from polytask.model.adapters.build import bind, build_adapter, first_layer, plan_adapter
from polytask.model.adapters.rows import TaskRows
from polytask.model.architectures import AnyEncoder
from polytask.model.dropout import Dropout
from polytask.model.heads import Head
from polytask.model.readers import mean_pool
from polytask.model.slots import Slots
from polytask.tasks import Task


@final
class MultitaskModel(nn.Module):
    """An encoder shared by all tasks and what belongs to each task alone."""

    def __init__(
        self,
        encoder: AnyEncoder,
        tasks: Mapping[str, Task],
        generator: torch.Generator,
        adapter: AdapterRecipe | None = None,
    ) -> None:
        super().__init__()
        config = encoder.config
        for task in tasks.values():
            if task.pooling == "pooler" and encoder.pooler is None:
                raise RecipeError(
                    f"tasks.{task.name}.pooling is 'pooler', but a {config.architecture} encoder has none: "
                    "use 'cls' or 'mean'."
                )
        self.tasks = dict(tasks)
        self.adapter = adapter or AdapterRecipe()
        self.adapters_on = self.adapter.kind != "none"  # a phase may leave them out
        self.encoder = encoder
        self.heads = nn.ModuleDict(
            {module_name(name): Head(task, config, generator) for name, task in tasks.items()}
        )
        self.adapters = nn.ModuleDict()
        if self.adapter.kind != "none":
            plan = plan_adapter(self.adapter, config)
            self.adapters.update(
                {module_name(name): build_adapter(plan, config, generator) for name in tasks}
            )

    def forward(
        self,
        batch: Batch,
        dropout: Dropout | None = None,
        frozen_layers: int = 0,
        noise: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Each task's outputs [rows, num_outputs]; `dropout=None` is evaluation (see `Encoder.states`)."""
        slots, rows = self._bind(batch, dropout)
        states = self.encoder.states(batch.tokens, dropout, slots, frozen_layers, noise)
        outputs = {}
        for name, shared in batch.slices.items():
            own_dropout = (
                Dropout(self.tasks[name].dropout, dropout.generator) if dropout is not None else None
            )
            own_states = [
                state[rows[name] if self._is_own(number, slots) else shared]
                for number, state in enumerate(states)
            ]
            head = self.heads[module_name(name)]
            outputs[name] = head(self.encoder, own_states, batch.tokens.rows(shared), own_dropout)
        return outputs

    def embed(self, batch: Batch) -> Tensor:
        """The mean of the shared encoder's last token states, [B, D]."""
        return mean_pool(self.encoder(batch.tokens), batch.tokens)

    def own_parameters(self, task: str) -> list[nn.Parameter]:
        """What belongs to one task alone: its head and its task-specific layers."""
        return [*self.heads[module_name(task)].parameters(), *self.adapter_parameters(task)]

    def adapter_parameters(self, task: str) -> list[nn.Parameter]:
        """The task-specific layers of one task."""
        name = module_name(task)
        return list(self.adapters[name].parameters()) if name in self.adapters else []

    @property
    def first_adapted(self) -> int:
        """The lowest layer whose states differ between tasks; one past the last layer if none does."""
        num_layers = self.encoder.config.num_layers
        if not self.adapters_on or not len(self.adapters):
            return num_layers + 1
        return first_layer(next(iter(self.adapters.values())), num_layers)

    def _bind(self, batch: Batch, dropout: Dropout | None) -> tuple[Slots | None, dict[str, slice]]:
        """The encoder's slots for this batch, and where each task's rows are once they are its own."""
        if not self.adapters_on or not len(self.adapters):
            return None, {}
        names = tuple(batch.slices)
        parts = list(batch.slices.values())
        rows = TaskRows(names, tuple(part.stop - part.start for part in parts))
        device = batch.tokens.ids.device
        adapters = [self.adapters[module_name(name)] for name in names]
        if not any(parameter.requires_grad for parameter in adapters[0].parameters()):
            dropout = None  # what is frozen runs as in evaluation
        expanded = None
        ends = [*(part.start for part in parts), batch.tokens.ids.shape[0]]
        if [0, *(part.stop for part in parts)] != ends:  # otherwise the batch is sorted by task already
            expanded = torch.cat([torch.arange(part.start, part.stop) for part in parts]).to(device)
        slots = bind(adapters, rows, expanded, self.encoder.config.num_layers, dropout)
        return slots, rows.slices()

    def _is_own(self, state: int, slots: Slots | None) -> bool:
        """Whether a state (0: the embeddings) comes after the place where tasks part."""
        if slots is None:
            return False
        return state > slots.first or (slots.on_top is not None and state == self.encoder.config.num_layers)


def module_name(task: str) -> str:
    """A task's key in a ModuleDict, which refuses names like `type` or `train` that its class already has."""
    return f"task-{task}"
