"""What is known of a named set: its columns, labels and splits, and where its rows lie."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from polytask.recipe_tasks import Kind, Metric

SPLITS = ("train", "dev", "test")
HUB_SPLITS = {"train": "train", "dev": "validation", "test": "test"}


@dataclass(frozen=True)
class HubSource:
    """A set on the Hugging Face hub; `splits` says what the hub calls each of ours."""

    name: str
    config: str
    revision: str | None  # a commit, so that everybody gets the same rows; None: as it is when it is fetched
    splits: Mapping[str, str] = field(default_factory=lambda: HUB_SPLITS, hash=False)

    @property
    def pinned(self) -> bool:
        """Whether the revision is a commit, which cannot change."""
        return self.revision is not None and len(self.revision) == 40


@dataclass(frozen=True)
class LocalLayout:
    """A set's files as its own distribution names them: tab-separated, quotes are plain characters."""

    folder: str
    files: Mapping[str, str] = field(hash=False)  # split -> file
    columns: Mapping[str, str] = field(hash=False)  # ours -> the file's
    words: Mapping[str, str] = field(default_factory=dict, hash=False)  # the file's label -> ours
    header: tuple[str, ...] = ()  # of the labelled files where they have none


@dataclass(frozen=True)
class KnownSet:
    """What a recipe may leave unsaid about a named set."""

    files: Mapping[str, str] = field(hash=False)  # split -> file name in the set's folder
    text: tuple[str, ...]
    label: str
    licence: str
    origin: str
    citation: str
    kind: Kind = "classification"
    labels: Mapping[str, str] | None = field(default=None, hash=False)  # None: those that train has
    range: tuple[float, float] | None = None
    metric: Metric | None = None
    in_mean: bool = True
    hub: HubSource | None = None
    local: LocalLayout | None = None


def parquet_files(*splits: str) -> dict[str, str]:
    """The files of a set that is kept as Parquet: one a split."""
    return {split: f"{split}.parquet" for split in splits}


def same(*names: str) -> dict[str, str]:
    """Labels that are called what stands in the file."""
    return {name: name for name in names}
