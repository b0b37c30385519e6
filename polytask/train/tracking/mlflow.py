"""MLflow: a run of the experiment that MLFLOW_EXPERIMENT_NAME names, where MLFLOW_TRACKING_URI says."""

import os
import time
from collections.abc import Mapping
from typing import final

from polytask.train.tracking.sink import Followed, Sink, flat

EXPERIMENT = "polytask"
LONGEST_PARAMETER = 500  # characters; the least that any of MLflow's stores takes
PARAMETERS_AT_ONCE = 100


@final
class MlflowSink(Sink):
    """Writes metrics, and the recipe as parameters."""

    def __init__(self, run: Followed) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Metric, Param

        self._metric = Metric
        self._client = MlflowClient()
        if run.key is not None:
            self.key = self._run = run.key
            self._client.set_terminated(run.key, "RUNNING")
            return
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", EXPERIMENT)
        experiment = self._client.get_experiment_by_name(name)
        number = experiment.experiment_id if experiment else self._client.create_experiment(name)
        self.key = self._run = str(self._client.create_run(number, run_name=run.folder.name).info.run_id)
        settings = [Param(key, value[:LONGEST_PARAMETER]) for key, value in flat(run.settings).items()]
        for first in range(0, len(settings), PARAMETERS_AT_ONCE):
            self._client.log_batch(self._run, params=settings[first : first + PARAMETERS_AT_ONCE])

    def write(self, values: Mapping[str, float], update: int) -> None:
        now = int(time.time() * 1000)
        metrics = [self._metric(name, value, now, update) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def close(self, failed: bool) -> None:
        self._client.set_terminated(self._run, "FAILED" if failed else "FINISHED")
