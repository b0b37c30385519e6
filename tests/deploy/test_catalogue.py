"""A folder of models may change while it is served: what is sound is taken up, what fails changes nothing."""

import shutil
from pathlib import Path

import pytest

from polytask.deploy.model import load
from polytask.deploy.serve.catalogue import Catalogue
from polytask.errors import ModelError, UserError


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    """Two models, of one task each."""
    model = load(trained)
    for task in ("mood", "alike"):
        model.save(tmp_path / f"{task}-model", tasks=[task])
    return tmp_path


def test_a_model_a_run_and_a_folder_of_models_can_be_served(trained: Path, folder: Path) -> None:
    assert set(Catalogue.open(trained).tasks) == {"mood", "alike", "tags"}
    assert set(Catalogue.open(trained / "model").tasks) == {"mood", "alike", "tags"}
    both = Catalogue.open(folder)
    assert set(both.models) == {"mood-model", "alike-model"}
    assert both.homes["mood"].name == "mood-model"


def test_models_come_go_and_change(trained: Path, folder: Path) -> None:
    first = Catalogue.open(folder)
    load(trained).save(folder / "tags-model", tasks=["tags"])
    shutil.rmtree(folder / "alike-model")
    second, changes = first.renewed()
    assert (changes.added, changes.removed, changes.reloaded) == (["tags-model"], ["alike-model"], [])
    assert set(second.tasks) == {"mood", "tags"}
    assert second.models["mood-model"] is first.models["mood-model"]
    assert set(first.tasks) == {"mood", "alike"}  # requests on their way keep what they came for
    shutil.rmtree(folder / "mood-model")
    load(trained).save(folder / "mood-model", tasks=["mood"])
    third, changes = second.renewed()
    assert changes.reloaded == ["mood-model"]
    assert third.models["mood-model"] is not second.models["mood-model"]


def test_a_damaged_model_leaves_the_one_that_was_loaded(folder: Path) -> None:
    first = Catalogue.open(folder)
    (folder / "mood-model" / "model.safetensors").write_bytes(b"noise")
    shutil.copytree(folder / "mood-model", folder / "new-model")
    second, changes = first.renewed()
    assert set(changes.failed) == {"mood-model", "new-model"}
    assert "model.safetensors" in changes.failed["mood-model"]
    assert second.models["mood-model"] is first.models["mood-model"]
    assert "new-model" not in second.models
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        Catalogue.open(folder)


def test_two_models_cannot_answer_one_task(folder: Path) -> None:
    first = Catalogue.open(folder)
    shutil.copytree(folder / "mood-model", folder / "zz-model")
    second, changes = first.renewed()
    assert list(changes.failed) == ["zz-model"]
    assert "its task mood is answered by mood-model already" in changes.failed["zz-model"]
    assert set(second.models) == set(first.models)
    with pytest.raises(ModelError, match="answered by mood-model already"):
        Catalogue.open(folder)


def test_an_empty_or_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is none in it"):
        Catalogue.open(tmp_path)
    with pytest.raises(UserError, match="there is no model folder"):
        Catalogue.open(tmp_path / "none")
