"""What tests of several folders start from."""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from tiny_project import load_recipe, write_project

from polytask import api

# A shell gives what it runs in the background no Ctrl-C; the tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run: a suite that fails one time in a hundred is of no use to anyone.
settings.register_profile("steady", derandomize=True, deadline=None)
settings.load_profile("steady")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A BERT folder, which the tests then change."""
    from tiny_checkpoints import make_encoder

    from polytask.model.weights import save_encoder

    save_encoder(make_encoder(), tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for all runs of the tiny project, apart from the user's."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny project, to be read only."""
    return write_project(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def one_thread(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The tiny recipe's thread count, put back afterwards, and the shared cache."""
    monkeypatch.setenv("POLYTASK_CACHE", str(shared_cache))
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def project(tmp_path: Path, tiny: Path, one_thread: None) -> Path:
    """A copy of the tiny project, to be changed."""
    return Path(shutil.copytree(tiny, tmp_path / "project"))


@pytest.fixture(scope="session")
def trained(tiny: Path, shared_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the tiny recipe, to be read only."""
    run = tmp_path_factory.mktemp("runs") / "trained"
    before = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLYTASK_CACHE", str(shared_cache))
        api.train(load_recipe(tiny), run)
    torch.set_num_threads(before)
    return run
