"""What stands behind predictions: something that turns padded sequences into the tasks' outputs."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from polytask.data.padding import Padded
from polytask.tasks import Floats, Task


class Scorer(ABC):
    """A model of several tasks as prediction sees it; how it computes is its own business."""

    tasks: dict[str, Task]
    width: int  # of an embedding

    @abstractmethod
    def outputs(self, padded: Padded, slices: Mapping[str, slice]) -> dict[str, Floats]:
        """Each asked task's outputs [rows, num_outputs] for its slice of the sequences; slices may overlap.

        Of a task that reads the sentences of a pair separately, the first half of its slice holds the first
        sentences and the second half the second ones.
        """

    @abstractmethod
    def embed(self, padded: Padded) -> Floats:
        """The mean of each sequence's last token states, [B, D], without task-specific layers."""

    @abstractmethod
    def save(self, folder: Path, names: Sequence[str], settings: Mapping[str, Any]) -> None:
        """Write a model folder of the tasks `names`, but for its tokenizer; `settings` go into its config."""

    @abstractmethod
    def join(self, other: "Scorer", names: Sequence[str]) -> "Scorer":
        """This model with some tasks of another, which was trained on the same encoder."""
