"""The models that a server answers with: one folder, or a folder of them that may change while it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from polytask.deploy.model import Model, load
from polytask.deploy.share import folder_of
from polytask.errors import ModelError, UserError
from polytask.tasks import Task

WARM_TEXT = "a text to warm up with"

Stamp = tuple[tuple[str, int, int], ...]  # name, size and time of each file


@final
@dataclass(frozen=True, eq=False)
class Served:
    """A loaded model and what its folder looked like then."""

    name: str
    folder: Path
    model: Model
    stamp: Stamp

    @property
    def one_pass(self) -> bool:
        """Whether all tasks read the same states, so that asking one more costs next to nothing."""
        return self.model.config.get("adapter", {}).get("kind", "none") == "none"

    @property
    def max_length(self) -> int:
        return int(self.model.config["max_length"])


@final
@dataclass(frozen=True)
class Changes:
    """What a second look at the folder found, by the models' names; `failed` says why."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    reloaded: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


@final
class Catalogue:
    """Models by name and, of each task, the model that answers it; never changed, only replaced."""

    def __init__(self, path: Path, models: Mapping[str, Served]) -> None:
        self.path = path
        self.models = dict(models)
        self.homes = {task: served for served in models.values() for task in served.model.tasks}
        self.tasks: dict[str, Task] = {task: home.model.tasks[task] for task, home in self.homes.items()}

    @classmethod
    def open(cls, path: Path) -> "Catalogue":
        """Load a model or run folder, or every model in a folder of them; all have to be sound."""
        catalogue, changes = cls(folder_of(path), {}).renewed()
        if changes.failed:
            raise ModelError("\n".join(changes.failed.values()))
        return catalogue

    def renewed(self) -> tuple["Catalogue", Changes]:
        """Look at the folder again: load what is new, leave out what is gone, keep what now fails."""
        changes = Changes()
        folders = _model_folders(self.path)
        changes.removed.extend(name for name in self.models if name not in folders)
        found: dict[str, Served] = {}
        for name, folder in folders.items():
            old = self.models.get(name)
            try:
                stamp = _stamp(folder)
                if old is not None and old.stamp == stamp:
                    found[name] = old
                    continue
                served = Served(name, folder, load(folder), stamp)
                _check_names(served, found)
                warm(served)
            except (UserError, OSError) as error:
                changes.failed[name] = str(error)
                if old is not None:
                    found[name] = old
                continue
            found[name] = served
            (changes.added if old is None else changes.reloaded).append(name)
        return Catalogue(self.path, found), changes


def warm(served: Served) -> None:
    """Answer once for each task, so that the first request does not pay for what a first call sets up."""
    for name, task in served.model.tasks.items():
        if task.texts == 1:
            served.model.predict(name, [WARM_TEXT])
        else:
            served.model.predict(name, [(WARM_TEXT, WARM_TEXT)])


def _model_folders(path: Path) -> dict[str, Path]:
    """The folder itself if it is a model or a run, or else those inside it."""
    if not path.is_dir():
        raise UserError(f"{path}: there is no model folder, run folder or folder of models of this name.")
    if _is_model(path) or (path / "recipe.toml").is_file():
        return {path.resolve().name: path}
    folders = {folder.name: folder for folder in sorted(path.iterdir()) if _is_model(folder)}
    if not folders:
        raise UserError(f"{path}: this is no model folder or run folder, and there is none in it.")
    return folders


def _is_model(folder: Path) -> bool:
    return (folder / "config.json").is_file() or (folder / "model" / "config.json").is_file()


def _stamp(folder: Path) -> Stamp:
    """What tells a changed folder from an unchanged one without reading it."""
    inner = folder / "model" if (folder / "model" / "config.json").is_file() else folder
    files = sorted(path for path in inner.iterdir() if path.is_file())
    return tuple((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files)


def _check_names(served: Served, others: Mapping[str, Served]) -> None:
    for other in others.values():
        for task in served.model.tasks:
            if task in other.model.tasks:
                raise ModelError(f"{served.folder}: its task {task} is answered by {other.name} already.")
