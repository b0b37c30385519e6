"""The Hugging Face hub: files of a repository, fetched or pushed, and what went wrong in a sentence."""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from polytask.errors import UserError

PREFIX = "hub:"
NAME = r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}"
REVISION = r"[A-Za-z0-9][\w./-]{0,199}"
HUB_NAME = re.compile(rf"({NAME})(?:@({REVISION}))?", re.ASCII)
OFFLINE_VARIABLES = ("POLYTASK_OFFLINE", "HF_HUB_OFFLINE")
TOKEN_VARIABLE = "HF_TOKEN"  # noqa: S105 (a variable's name)
TRIES = 5
LONGEST_WAIT = 60.0  # seconds between two tries
PASSING = (429, 500, 502, 503, 504)  # answers of a hub that is busy or not well: it is asked again

Kind = Literal["model", "dataset"]
Result = TypeVar("Result")


class HubError(UserError):
    """A name on the hub leads nowhere, may not be read or written, or is not here while offline."""


class HubFailure(RuntimeError):
    """The hub could not be reached or did not do its part; the same command may work later."""


@dataclass(frozen=True)
class HubName:
    """A repository on the hub; without a revision its main branch, as it is at that moment."""

    owner_name: str
    revision: str | None = None

    def __str__(self) -> str:
        return f"{self.owner_name}@{self.revision}" if self.revision else self.owner_name


@dataclass(frozen=True)
class HubFile:
    """A file of a repository; the hub knows the SHA-256 of large files only."""

    path: str
    sha256: str | None


def parse_name(text: str) -> HubName | None:
    """`owner/name` or `owner/name@revision`, with or without `hub:`; None for anything else."""
    found = HUB_NAME.fullmatch(text.removeprefix(PREFIX))
    return HubName(found[1], found[2]) if found else None


def is_offline() -> bool:
    """Whether the user forbade the network: POLYTASK_OFFLINE or HF_HUB_OFFLINE is set."""
    values = (os.environ.get(name, "").strip().upper() for name in OFFLINE_VARIABLES)
    return any(value in ("1", "ON", "YES", "TRUE") for value in values)


def fetch_snapshot(name: HubName, patterns: Sequence[str], kind: Kind = "model") -> Path:
    """The cached folder of a repository with the files that match; what is there is not fetched again."""
    from huggingface_hub import snapshot_download

    with _said_plainly(name, kind):
        return _patiently(
            lambda: Path(
                snapshot_download(
                    name.owner_name,
                    revision=name.revision,
                    repo_type=kind,
                    allow_patterns=list(patterns),
                    local_files_only=is_offline(),
                )
            )
        )


def list_files(name: HubName, kind: Kind) -> tuple[str, list[HubFile]]:
    """The commit that a name means now, and the files of that commit."""
    from huggingface_hub import HfApi

    if is_offline():
        raise HubError(_not_cached(name))
    with _said_plainly(name, kind):
        info: Any = _patiently(
            lambda: HfApi().repo_info(
                name.owner_name, revision=name.revision, repo_type=kind, files_metadata=True
            )
        )
    files = [HubFile(item.rfilename, item.lfs.sha256 if item.lfs else None) for item in info.siblings or ()]
    return str(info.sha), files


def push_folder(name: HubName, folder: Path, files: Sequence[str], *, private: bool, message: str) -> str:
    """Upload files as one commit to a model repository, made if there is none; returns its address."""
    from huggingface_hub import CommitOperationAdd, HfApi, get_token

    if is_offline():
        raise HubError(f"{name} cannot be pushed: {_set_offline()} is set.")
    if get_token() is None:
        raise HubError(
            f"{name} cannot be pushed without a token: set {TOKEN_VARIABLE} to one that may write."
        )
    api = HfApi()
    with _said_plainly(name, "model", writing=True):
        _patiently(lambda: api.create_repo(name.owner_name, private=private or None, exist_ok=True))
        if name.revision is not None:
            api.create_branch(name.owner_name, branch=name.revision, exist_ok=True)
        added = [CommitOperationAdd(file, folder / file) for file in files]
        commit = api.create_commit(
            name.owner_name, added, commit_message=message, revision=name.revision
        )  # whole or not at all, whichever store the hub asks for
    return str(commit.commit_url)


def _patiently(ask: Callable[[], Result]) -> Result:
    """Ask again while the hub is busy, after the time that it names or ever longer ones.

    The hub's client does so for files, but not for every question about a repository.
    """
    for attempt in range(TRIES - 1):
        try:
            return ask()
        except Exception as error:
            response: Any = _response(error) or _response(error.__cause__)
            if getattr(response, "status_code", None) not in PASSING:
                raise
            named = str(response.headers.get("Retry-After", ""))
            time.sleep(min(float(named) if named.isdecimal() else 2.0**attempt, LONGEST_WAIT))
    return ask()


def _response(error: BaseException | None) -> object:
    return getattr(error, "response", None)


@contextmanager
def _said_plainly(name: HubName, kind: Kind, writing: bool = False) -> Iterator[None]:
    from huggingface_hub import errors

    try:
        yield
    except errors.GatedRepoError:
        raise HubError(
            f"{name}: its owner grants access on request only: ask on its page, then set {TOKEN_VARIABLE}."
        ) from None
    except errors.RevisionNotFoundError:
        raise HubError(f"{name}: the {kind} {name.owner_name} has no revision {name.revision!r}.") from None
    except errors.RepositoryNotFoundError:
        raise HubError(_no_access(name, kind)) from None
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        if is_offline():
            raise HubError(_not_cached(name)) from None
        if isinstance(error.__cause__, errors.HfHubHTTPError):
            raise _refused(error.__cause__, name, writing) from None
        raise HubFailure(
            f"{name}: the hub ({_endpoint()}) could not be reached, and no whole copy is in the cache."
        ) from None
    except errors.HfHubHTTPError as error:
        raise _refused(error, name, writing) from None
    except errors.HFValidationError as error:
        raise HubError(f"{name}: {_first_line(error)}.") from None
    except Exception as error:  # whichever HTTP library the hub's client uses has errors of its own
        reason = _first_line(error.__cause__ or error)
        raise HubFailure(f"{name}: the hub ({_endpoint()}): {reason}.") from None


def _refused(error: Any, name: HubName, writing: bool) -> Exception:
    status = getattr(_response(error), "status_code", None)
    if status == 401:
        return HubError(f"{name}: the hub did not accept the token; {TOKEN_VARIABLE} should be a valid one.")
    if status == 403:
        deed = "write to" if writing else "read"
        return HubError(
            f"{name}: this token may not {deed} it; set {TOKEN_VARIABLE} to one of an account that may."
        )
    if status == 429:
        return HubFailure(
            f"{name}: the hub answers too many requests (429) and went on doing so; try again later."
        )
    return HubFailure(f"{name}: the hub ({_endpoint()}): {_first_line(error)}.")


def _no_access(name: HubName, kind: Kind) -> str:
    from huggingface_hub import get_token

    if get_token() is None:
        return f"{name}: the hub has no public {kind} of this name; for a private one set {TOKEN_VARIABLE}."
    return f"{name}: the hub has no {kind} of this name that the owner of {TOKEN_VARIABLE} may read."


def _not_cached(name: HubName) -> str:
    return f"{name} is not in the cache, or not all of it, and {_set_offline()} is set."


def _set_offline() -> str:
    return next(name for name in OFFLINE_VARIABLES if os.environ.get(name))


def _endpoint() -> str:
    from huggingface_hub import constants

    return str(constants.ENDPOINT)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200].rstrip(". ")
