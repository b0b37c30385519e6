"""One process of several that train a recipe together, as `launch` starts it; speaks JSON lines to it."""

import json
import os
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

from polytask.errors import UserError
from polytask.recipe import Recipe
from polytask.train.parallel import LostProcessError
from polytask.train.run import train_recipe
from polytask.train.state import TrainingStopped


def main(arguments: list[str]) -> int:
    """Train and report; the exit code as the command line has it."""
    path, base, folder, resume = arguments
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        recipe = Recipe.from_dict(tomllib.loads(Path(path).read_text(encoding="utf-8")), base)
        run = train_recipe(recipe, Path(folder), resume=resume == "1", listener=_send)
    except UserError as error:
        return _fail("user", error, 2)
    except TrainingStopped as stop:
        return _fail("stopped", stop, 1)
    except LostProcessError as error:
        return _fail("lost", error, 1)
    except (OSError, RuntimeError) as error:
        return _fail("error", error, 1)
    _send({"result": run.scores})
    return 0


def _send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message, allow_nan=False) + "\n")
    sys.stdout.flush()


def _fail(kind: str, error: BaseException, code: int) -> int:
    _send({"failed": kind, "message": str(error)})
    return code


def _end_with_parent() -> None:
    """When the starting process is gone, nobody waits for this one."""
    os.read(sys.stdin.fileno(), 1)  # not through a buffer, whose lock an ordinary end would wait for
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
