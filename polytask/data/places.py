"""Which file a recipe means by a path, a known set's name or `hub:owner/name:config`."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from polytask.data.catalogue import KNOWN_SETS
from polytask.data.kept import Kept
from polytask.data.known_set import SPLITS
from polytask.errors import DataError, did_you_mean, one_of
from polytask.hub import PREFIX, HubError

FOLDER_VARIABLE = "POLYTASK_DATA"
DEMO = "demo/"  # sets that PyPI packages carry

Report = Callable[[str], None] | None


@dataclass(frozen=True)
class Places:
    """Where files are looked for: paths from `base`, sets in their own layout in `data`."""

    base: Path
    data: Path | None
    report: Report = None

    @classmethod
    def of(cls, base: Path, data: str | None = None, report: Report = None) -> "Places":
        """The data folder is the recipe's own `data`, or the one that POLYTASK_DATA names."""
        if data is not None:
            folder = (base / data).absolute()
            if not folder.is_dir():
                raise DataError(f"data: there is no folder {folder}.")
            return cls(base, folder, report)
        named = os.environ.get(FOLDER_VARIABLE)
        return cls(base, Path(named).expanduser().absolute() if named else None, report)

    def say(self, message: str) -> None:
        if self.report is not None:
            self.report(message)


def known_name(value: str) -> tuple[str, str | None] | None:
    """The known set that a value names, and the split if one stands behind a colon: `glue/mnli:test`."""
    name, _, split = value.partition(":")
    return (name, split or None) if name in KNOWN_SETS else None


def is_set(value: str) -> bool:
    """Whether a value names a set that brings splits of its own, rather than one file."""
    named = known_name(value)
    if named is not None:
        return named[1] is None
    return value.startswith(PREFIX) and value.count(":") < 3


def splits_of(value: str, places: Places) -> tuple[str, ...]:
    """The splits that a set brings when it is named as `train`."""
    named = known_name(value)
    if named is not None:
        return tuple(split for split in SPLITS if split in KNOWN_SETS[named[0]].files)
    from polytask.data.hub_sets import fetch_hub_set, parse_hub_set

    _, kept = _asked(lambda: fetch_hub_set(parse_hub_set(value), places.say))
    return tuple(split for split in SPLITS if split in kept.rows)


def locate(value: str, split: str, places: Places) -> Path:
    """The file that a recipe's `split` means; sets that are not here yet are fetched."""
    named = known_name(value)
    if named is not None:
        name, own = named
        return _of_known(name, own or split, places)
    if value.startswith(PREFIX):
        return _of_hub(value, split, places)
    path = (places.base / value).absolute()
    if ("/" in value or not Path(value).suffix) and not path.exists():
        near = did_you_mean(value, KNOWN_SETS, "; ")
        raise DataError(f"{value!r} is neither a file ({path}) nor a known set (polytask data list){near}")
    return path


def set_folder(name: str, places: Places, again: bool = False) -> Path:
    """The folder of a known set, fetched unless it is there."""
    if name not in KNOWN_SETS:
        raise DataError(f"a known set {one_of(KNOWN_SETS, name)}")
    known = KNOWN_SETS[name]
    if name.startswith(DEMO):
        from polytask.data.fetch import fetch  # network libraries, a tenth of a second to import

        return fetch(name, places.report)
    from polytask.data.local_sets import keep_local_set, local_folder

    own = local_folder(known, places.data)
    if own is not None:
        places.say(f"{name}: from {own}")
        return keep_local_set(name, known, own)[0]
    if known.hub is not None:
        from polytask.data.hub_sets import fetch_known_set

        return _asked(lambda: fetch_known_set(name, known, places.say, again))[0]
    if places.data is None:
        first = next(iter(known.files.values()))
        raise DataError(
            f"{name} cannot be downloaded: set {FOLDER_VARIABLE} to the folder that holds {first}."
        )
    return places.data


def _of_known(name: str, split: str, places: Places) -> Path:
    files: Mapping[str, str] = KNOWN_SETS[name].files
    if split not in files:
        raise DataError(f"{name} has no {split} split; it has {', '.join(files)}.")
    folder = set_folder(name, places)
    path = folder / files[split]
    if not path.is_file():
        where = f"{FOLDER_VARIABLE} ({folder})" if folder == places.data else str(folder)
        raise DataError(f"{name}: no file {files[split]} in {where}.")
    return path


def _of_hub(value: str, split: str, places: Places) -> Path:
    from polytask.data.hub_sets import OURS, fetch_hub_set, parse_hub_set

    wanted = parse_hub_set(value)
    folder, kept = _asked(lambda: fetch_hub_set(wanted, places.say))
    asked = OURS.get(wanted.split, wanted.split) if wanted.split is not None else split
    if asked not in kept.rows:
        raise DataError(f"{value}: has no {asked} split; it has {', '.join(kept.rows)}.")
    return folder / f"{asked}.parquet"


def _asked(ask: Callable[[], tuple[Path, Kept]]) -> tuple[Path, Kept]:
    """What the hub says is wrong with a name is a mistake in the recipe like any other."""
    try:
        return ask()
    except HubError as error:
        raise DataError(str(error)) from None
