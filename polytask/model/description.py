"""A model folder's description of itself, which any engine reads before it loads the weights."""

import json
from pathlib import Path
from typing import Any

from polytask.errors import ModelError

FORMAT = "polytask"
VERSION = 1
MAX_CONFIG_BYTES = 10_000_000


def read_model_config(folder: Path) -> dict[str, Any]:
    """A model folder's `config.json`, checked to be one of ours."""
    path = folder / "config.json"
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise ModelError(f"{path}: a model description should be at most {MAX_CONFIG_BYTES:,} bytes.")
        config = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ModelError(f"{folder} is not a model folder: it has no config.json.") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}).") from None
    except ValueError as error:
        raise ModelError(f"{path}: not valid JSON ({error}).") from None
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise ModelError(f"{path}: not written by polytask (its format is not {FORMAT!r}).")
    if config.get("version") != VERSION:
        raise ModelError(f"{path}: version should be {VERSION}. Found {config.get('version')!r}.")
    return config
