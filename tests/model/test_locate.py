"""How the name of an encoder becomes a folder, and what is said when it does not."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_hub import point_client_at, served

from polytask.errors import ModelError
from polytask.hub import HubFailure
from polytask.model import locate
from polytask.model.locate import EMBEDDED_INSTALL, locate_encoder

WEIGHTS = b"the weights"


def make_package(folder: Path, name: str, weights: bytes = WEIGHTS) -> Path:
    """A package that fails when it is imported and holds an encoder some folders down."""
    place = folder / name / "data" / "some-model"
    place.mkdir(parents=True)
    (folder / name / "__init__.py").write_text("raise RuntimeError('imported')")
    (place / "model.safetensors").write_bytes(weights)
    (place / "config.json").write_text("{}")
    (place / "tokenizer.json").write_text("{}")
    return place


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path in which the two packages are looked for."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(locate, "EMBEDDED_PACKAGES", ("fake_minilm_one", "fake_minilm_two"))
    monkeypatch.setattr(locate, "EMBEDDED_SHA256", hashlib.sha256(WEIGHTS).hexdigest())
    return tmp_path


def test_the_embedded_encoder_is_found_in_either_package_without_importing_it(packages: Path) -> None:
    place = make_package(packages, "fake_minilm_two")
    assert locate_encoder("minilm", Path()) == place
    assert "fake_minilm_two" not in sys.modules


def test_weights_without_a_tokenizer_beside_them_are_not_the_embedded_encoder(packages: Path) -> None:
    (make_package(packages, "fake_minilm_one") / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match="is not installed"):
        locate_encoder("minilm", Path())


def test_an_absent_embedded_encoder_is_told_with_the_command_to_install_it(packages: Path) -> None:
    with pytest.raises(ModelError) as caught:
        locate_encoder("minilm", packages)
    assert str(caught.value).endswith(f"Install it with: {EMBEDDED_INSTALL}")


def test_a_wrong_checksum_is_refused(packages: Path) -> None:
    place = make_package(packages, "fake_minilm_one", WEIGHTS + b"!")
    with pytest.raises(ModelError, match="damaged") as caught:
        locate_encoder("minilm", Path())
    message = str(caught.value)
    assert str(place / "model.safetensors") in message
    assert hashlib.sha256(WEIGHTS).hexdigest() in message
    assert hashlib.sha256(WEIGHTS + b"!").hexdigest() in message


def test_a_sound_package_is_found_behind_a_damaged_one(packages: Path) -> None:
    make_package(packages, "fake_minilm_one", b"damaged")
    place = make_package(packages, "fake_minilm_two")
    assert locate_encoder("minilm", Path()) == place


def test_the_checksum_of_the_real_package_is_the_published_one() -> None:
    try:
        folder = locate_encoder("minilm", Path())
    except ModelError as error:
        pytest.skip(str(error))
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert digest == "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@pytest.mark.parametrize("name", ["mine", "deep/er", "./mine", "../{base}/mine"])
def test_a_folder_is_found_from_the_base(tmp_path: Path, name: str) -> None:
    name = name.format(base=tmp_path.name)
    (tmp_path / "mine").mkdir()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    assert locate_encoder(name, tmp_path).samefile(tmp_path / name)


def test_an_absolute_folder_is_itself(tmp_path: Path) -> None:
    assert locate_encoder(str(tmp_path), Path("elsewhere")) == tmp_path


def test_a_file_is_no_encoder(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ModelError, match=r"should be a folder, not a file\. Found 'model\.safetensors'"):
        locate_encoder("model.safetensors", tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "nothing",
        "./nothing",
        "../no/thing",
        "/no/thing",
        "a/b/c",
        "a/..",
        "a b/c",
        "ä/b",
        "x" * 5000,
        "a\0b/c",
    ],
)
def test_any_other_name_is_refused_without_asking_the_hub(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locate, "_fetch_from_hub", lambda *_: pytest.fail("asked the hub"))
    with pytest.raises(ModelError, match=r"^encoder "):
        locate_encoder(name, tmp_path)


@pytest.mark.parametrize("name", ["minlm", "MiniLM", "mini-lm"])
def test_a_misspelt_minilm_is_suggested(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError, match="did you mean 'minilm'"):
        locate_encoder(name, tmp_path)


def test_a_hub_name_offline_gives_one_sentence(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from polytask.model.locate import locate_encoder\n"
        "from polytask.errors import ModelError\n"
        "assert 'huggingface_hub' not in sys.modules\n"
        "try: locate_encoder('owner/name', Path())\n"
        "except ModelError as error: print(error)"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "encoder owner/name is not in the cache, or not all of it, and HF_HUB_OFFLINE is set. "
        "(. has no such folder either.)\n"
    )
    assert done.stderr == ""


class FakeHub:
    """Stands in for `snapshot_download`: writes those of a repository's files that are asked for."""

    def __init__(self, folder: Path, files: tuple[str, ...]) -> None:
        self.folder, self.files, self.calls = folder, files, 0

    def __call__(self, name: str, allow_patterns: list[str], **_: object) -> str:
        self.calls += 1
        for file_name in self.files:
            if any(Path(file_name).match(pattern) for pattern in allow_patterns):
                (self.folder / file_name).touch()
        return str(self.folder)


@pytest.mark.parametrize(
    ("files", "taken", "calls"),
    [
        (("model.safetensors", "pytorch_model.bin", "tf_model.h5"), {"model.safetensors"}, 1),
        (("pytorch_model.bin", "flax_model.msgpack", "README.md"), {"pytorch_model.bin"}, 2),
        (
            ("model.safetensors.index.json", "model-00001-of-00002.safetensors", "model.fp16.safetensors"),
            {"model.safetensors.index.json", "model-00001-of-00002.safetensors"},
            1,
        ),
    ],
)
def test_only_config_tokenizer_and_one_form_of_weights_are_fetched(
    files: tuple[str, ...], taken: set[str], calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").mkdir()
    hub = FakeHub(tmp_path / "cache", ("config.json", "tokenizer.json", "vocab.txt", "modeling.py", *files))
    monkeypatch.setattr("huggingface_hub.snapshot_download", hub)
    folder = locate_encoder("owner/name", tmp_path)
    assert set(os.listdir(folder)) == {"config.json", "tokenizer.json", "vocab.txt", *taken}
    assert hub.calls == calls


def test_any_other_failure_of_the_hub_is_told_in_its_first_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("502 Bad Gateway.\nand more")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(HubFailure, match=r"^encoder owner/name: the hub \(http.*\): 502 Bad Gateway\.$"):
        locate_encoder("owner/name", tmp_path)


def test_an_encoder_is_fetched_at_the_revision_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "config.json": b"{}",
        "tokenizer.json": b"{}",
        "pytorch_model.bin": b"weights",
        "modeling.py": b"1",
    }
    with served() as hub:
        point_client_at(hub, str(tmp_path / "hub-cache"), monkeypatch)
        first = hub.add("models/owner/name", files)
        hub.repositories["models/owner/name"].commit({**files, "model.safetensors": b"later"})
        assert set(os.listdir(locate_encoder(f"owner/name@{first}", tmp_path))) == {
            "config.json",
            "tokenizer.json",
            "pytorch_model.bin",
        }
        assert "model.safetensors" in os.listdir(locate_encoder("owner/name", tmp_path))
        with pytest.raises(ModelError, match=r"^encoder owner/name@v9: .* has no revision 'v9'"):
            locate_encoder("owner/name@v9", tmp_path)
