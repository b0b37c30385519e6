"""polytask: one BERT-family encoder, many sentence-level tasks."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polytask.api import Model, Run, evaluate, load, train, write_report
    from polytask.errors import UserError
    from polytask.recipe import Recipe

__version__ = "0.1.0"
__all__ = ["Model", "Recipe", "Run", "UserError", "evaluate", "load", "train", "write_report"]

# Names load on first use, so that `polytask --help` and a recipe's check need not wait for torch.
_HOME = {"Recipe": "polytask.recipe", "UserError": "polytask.errors"}


class _Package(ModuleType):
    """Keeps `polytask.train` and `polytask.evaluate` the functions, although folders have these names too."""

    def __setattr__(self, name: str, value: object) -> None:
        # Importing a folder sets it as an attribute of its parent; there the public name comes first.
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'polytask' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME.get(name, "polytask.api")), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


sys.modules[__name__].__class__ = _Package
