"""The package keeps its shape: imports go downwards only, and modules and functions stay readable."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "polytask"
MODULES = sorted(PACKAGE.rglob("*.py"))

# Lines of the design, top to bottom: a module imports from lines above its own, or from its own folder.
LINES = [
    {"errors"},
    {"changes", "explain", "files", "choices", "hub"},
    {"update_choices", "recipe_preparation"},
    {"recipe_tasks", "recipe_phases"},
    {"recipe"},
    {"tasks"},
    {"batch"},
    {"data", "model"},
    {"evaluate"},
    {"train"},
    {"report", "deploy"},
    {"experiments"},
    {"api", "describe", "console"},
    {"commands"},
    {"cli", "__init__"},
    {"__main__"},
]
LINE_OF = {name: number for number, names in enumerate(LINES) for name in names}
LIGHT = [
    "errors",
    "recipe",
    "tasks",
    "data.prepare",
    "data.known",
    "evaluate.metrics",
    "report.page",
    "cli",
    "deploy.predict",
    "experiments.compare",
]


def part_of(module: Path) -> str:
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(module: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("polytask"):
            names = node.module.split(".")[1:2] or [alias.name for alias in node.names]
            found.update(names)
        if isinstance(node, ast.Import):
            found.update(
                alias.name.split(".")[1] for alias in node.names if alias.name.startswith("polytask.")
            )
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_downwards_only(module: Path) -> None:
    own = part_of(module)
    for part in imported_parts(module) - {own}:
        assert LINE_OF[part] < LINE_OF[own], f"{own} imports {part}, which is not above it"


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_says_what_it_is_for_and_can_be_read_in_one_sitting(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    assert len(text.splitlines()) <= 300
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, f"{node.name} is too long"


@pytest.mark.parametrize("name", LIGHT)
def test_light_modules_do_not_import_torch(name: str) -> None:
    code = f"import sys, polytask.{name}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_at_most_twenty_public_names() -> None:
    import polytask

    assert len(polytask.__all__) <= 20
    assert all(hasattr(polytask, name) for name in polytask.__all__)


@pytest.mark.parametrize(
    "first", ["polytask.train.loop", "polytask.evaluate.metrics", "polytask.api", "polytask"]
)
def test_public_functions_are_not_hidden_by_the_folders_of_their_names(first: str) -> None:
    code = (
        f"import {first} as first, polytask as pt; from polytask import evaluate, train; pt.load; "
        "import polytask.train.loop as loop; "
        "print(all(map(callable, (pt.train, pt.evaluate, train, evaluate))) and loop.__name__)"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == "polytask.train.loop"


def test_a_folder_that_is_called_does_what_the_function_does(tmp_path: Path) -> None:
    import polytask as pt
    import polytask.evaluate.metrics
    import polytask.train.loop

    with pytest.raises(pt.UserError, match="cannot be read as a recipe"):
        pt.train(tmp_path / "none.toml")
    with pytest.raises(pt.UserError, match="no model folder"):
        pt.evaluate(tmp_path / "none")
