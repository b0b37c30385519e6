"""TensorBoard: event files in the run's folder `tensorboard`, for `tensorboard --logdir RUN`."""

import json
from collections.abc import Mapping
from typing import final

from polytask.train.tracking.sink import Followed, Sink


@final
class TensorboardSink(Sink):
    """Writes scalars, and the recipe as a text."""

    def __init__(self, run: Followed) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(run.folder / "tensorboard"))
        self._writer.add_text("recipe", f"```json\n{json.dumps(run.settings, indent=2)}\n```")

    def write(self, values: Mapping[str, float], update: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, update)

    def close(self, failed: bool) -> None:
        self._writer.close()
