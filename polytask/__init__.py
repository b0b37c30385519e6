"""polytask: one BERT-family encoder, many sentence-level tasks."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polytask.api import (
        Model,
        Run,
        add_task,
        evaluate,
        export,
        load,
        pull,
        push,
        remove_task,
        submit,
        train,
        write_report,
    )
    from polytask.errors import UserError
    from polytask.experiments.compare import compare
    from polytask.recipe import Recipe

__version__ = "0.1.0"
__all__ = [
    "Model",
    "Recipe",
    "Run",
    "UserError",
    "add_task",
    "compare",
    "evaluate",
    "export",
    "load",
    "pull",
    "push",
    "remove_task",
    "submit",
    "train",
    "write_report",
]

# Names load on first use, so that `polytask --help`, a recipe's check and an exported model do without torch.
_HOME = {
    "Recipe": "polytask.recipe",
    "UserError": "polytask.errors",
    "Model": "polytask.deploy.model",
    "load": "polytask.deploy.model",
    "compare": "polytask.experiments.compare",
}


class _Folder(ModuleType):
    """`polytask.train` and `polytask.evaluate` are folders and functions: called, they do as the API does."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return _from_api(self.__name__.removeprefix("polytask."))(*arguments, **options)


class _Package(ModuleType):
    """Importing a folder makes it an attribute of the package, in the place of the function of that name."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in __all__ and isinstance(value, ModuleType):
            value.__class__ = _Folder
        super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'polytask' has no attribute {name!r}")
    return _from_api(name)


def _from_api(name: str) -> Any:
    from importlib import import_module

    return getattr(import_module(_HOME.get(name, "polytask.api")), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


sys.modules[__name__].__class__ = _Package
