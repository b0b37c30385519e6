"""A model that answers through ONNX Runtime, without torch."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from polytask.data.padding import Padded
from polytask.deploy.onnx_paths import ask_name
from polytask.errors import ModelError, UserError
from polytask.evaluate.scorer import Scorer
from polytask.files import sha256_of
from polytask.tasks import Floats, Task

GRAPH = "model.onnx"
RUNTIME = "onnx"  # what `runtime` says in the config.json of an exported model
EMBEDDING = "embedding.mean"  # no name that the exporter may give to a value inside
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


def output_name(task: str) -> str:
    """The graph's output with a task's outputs [B, num_outputs]."""
    return f"outputs.{task}"


@final
class OnnxScorer(Scorer):
    """An exported graph: its outputs are those of the tasks and the embedding."""

    def __init__(self, folder: Path, tasks: Mapping[str, Task], device: str = "cpu") -> None:
        self.tasks = dict(tasks)
        self._folder = folder
        self._session = _open(folder / GRAPH, device)
        self._inputs = {item.name for item in self._session.get_inputs()}
        shapes = {item.name: item.shape for item in self._session.get_outputs()}
        wanted = [*map(output_name, tasks), EMBEDDING]
        if missing := [name for name in wanted if name not in shapes]:
            raise ModelError(f"{folder / GRAPH}: has no output {missing[0]!r}, which config.json asks for.")
        self._outputs = list(shapes)
        # A graph that halves its sequences takes them in even numbers.
        self._even = any(task.separate for task in tasks.values())
        self.width = int(shapes[EMBEDDING][1])

    @classmethod
    def load(cls, folder: Path, config: Mapping[str, Any], device: str = "auto") -> "OnnxScorer":
        """The graph in a model folder, whose `config.json` is given."""
        path = folder / GRAPH
        try:
            if sha256_of(path) != config["sha256"]:
                raise ModelError(f"{path}: its SHA-256 is not the one in config.json.")
            tasks = {name: Task.from_dict(values) for name, values in config["tasks"].items()}
        except OSError as error:
            raise ModelError(f"{path}: cannot be read ({error.strerror}).") from None
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(f"{folder / 'config.json'}: not a sound model description ({error}).") from None
        return cls(folder, tasks, "cpu" if device == "auto" else device)

    def outputs(self, padded: Padded, slices: Mapping[str, slice]) -> dict[str, Floats]:
        found: dict[str, Floats] = {}
        together: dict[tuple[int, int], list[str]] = {}
        for name, rows in slices.items():
            together.setdefault((rows.start, rows.stop), []).append(name)
        for (start, stop), names in together.items():
            values = self._run(padded.rows(slice(start, stop)), [*map(output_name, names)])
            found.update(zip(names, values, strict=True))
        return {name: found[name] for name in slices}

    def embed(self, padded: Padded) -> Floats:
        return self._run(padded, [EMBEDDING])[0]

    def save(self, folder: Path, names: Sequence[str], settings: Mapping[str, Any]) -> None:
        if set(names) != set(self.tasks):
            raise ModelError(
                "an exported model keeps all its tasks: cut the one it came from, and export that."
            )
        folder.mkdir(parents=True, exist_ok=True)
        for name in (GRAPH, "config.json"):
            shutil.copyfile(self._folder / name, folder / name)

    def join(self, other: Scorer, names: Sequence[str]) -> "Scorer":
        raise ModelError("an exported model takes in no tasks: join the ones it came from, and export that.")

    def _run(self, padded: Padded, outputs: list[str]) -> list[Floats]:
        """Some outputs; the paths of the others are not walked."""
        rows = len(padded.lengths)
        segments = padded.segments if padded.segments is not None else np.zeros_like(padded.ids)
        given = {"ids": padded.ids, "lengths": padded.lengths, "segments": segments}
        if self._even and rows % 2:
            given = {name: np.concatenate([array, array[-1:]]) for name, array in given.items()}
        asked = {ask_name(name): np.array(name in outputs) for name in self._outputs}
        wanted = {name: value for name, value in {**given, **asked}.items() if name in self._inputs}
        values: list[Floats] = self._session.run(
            outputs, {name: np.ascontiguousarray(value) for name, value in wanted.items()}
        )
        return [value[:rows] for value in values]


def _open(path: Path, device: str) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise UserError(
            "an exported ONNX model needs onnxruntime, which is not installed: pip install polytask[onnx]"
        ) from None
    if device not in PROVIDERS or PROVIDERS[device] not in onnxruntime.get_available_providers():
        raise UserError(f"device should be one that this ONNX Runtime has. Found {device!r}.")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if (threads := os.environ.get("OMP_NUM_THREADS", "")).isdigit():  # as torch does
        options.intra_op_num_threads = int(threads)
    try:
        return onnxruntime.InferenceSession(path, options, providers=[PROVIDERS[device]])
    except Exception as error:  # the library's exceptions have no common class
        raise ModelError(
            f"{path}: is no ONNX model that can be run ({str(error).splitlines()[0]})."
        ) from None
