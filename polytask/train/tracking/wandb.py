"""Weights & Biases: a run of the project that WANDB_PROJECT names, online or by WANDB_MODE in its folder."""

import os
from collections.abc import Mapping
from typing import final

from polytask.train.tracking.sink import Followed, Sink

PROJECT = "polytask"


@final
class WandbSink(Sink):
    """Writes values by update, and the recipe as the run's settings."""

    def __init__(self, run: Followed) -> None:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=run.folder.name,
            dir=str(run.folder),
            config=run.settings,
            id=run.key,
            resume="allow",
            settings=wandb.Settings(silent=True, console="off"),  # standard output is polytask's own
        )
        self.key = str(self._run.id)

    def write(self, values: Mapping[str, float], update: int) -> None:
        self._run.log(dict(values), step=update)

    def close(self, failed: bool) -> None:
        self._run.finish(exit_code=1 if failed else 0)
