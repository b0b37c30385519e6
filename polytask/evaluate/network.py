"""A model that answers through torch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import torch

from polytask.batch import Batch
from polytask.data.batches import to_tokens
from polytask.data.padding import Padded
from polytask.errors import ModelError
from polytask.evaluate.scorer import Scorer
from polytask.model.compute import Compute
from polytask.model.folder import save_model
from polytask.model.multitask import MultitaskModel
from polytask.model.parts import join_models, take_tasks
from polytask.tasks import Floats


@final
class NetworkScorer(Scorer):
    """A torch model on a device, in a precision; it is put in evaluation mode for every batch."""

    def __init__(self, network: MultitaskModel, compute: Compute) -> None:
        self.network = network.to(compute.device)
        self.compute = compute
        self.tasks = network.tasks
        self.width = network.encoder.config.width

    def outputs(self, padded: Padded, slices: Mapping[str, slice]) -> dict[str, Floats]:
        self.network.eval()
        batch = Batch(to_tokens(padded), slices, {}, int(padded.lengths.sum())).to(self.compute.device)
        with torch.inference_mode(), self.compute.autocast():
            found = self.network(batch)
        return {name: outputs.float().cpu().numpy() for name, outputs in found.items()}

    def embed(self, padded: Padded) -> Floats:
        batch = Batch(to_tokens(padded), {}, {}, int(padded.lengths.sum())).to(self.compute.device)
        with torch.inference_mode(), self.compute.autocast():
            return self.network.embed(batch).float().cpu().numpy()

    def save(self, folder: Path, names: Sequence[str], settings: Mapping[str, Any]) -> None:
        save_model(folder, take_tasks(self.network, names), settings)

    def join(self, other: Scorer, names: Sequence[str]) -> "NetworkScorer":
        if not isinstance(other, NetworkScorer):
            raise ModelError("only torch models can be joined: use the one that was exported.")
        return NetworkScorer(join_models(self.network, other.network, names), self.compute)
