"""List the files of a base's revision on the hub, download them with resume, and explain what fails.

`hf_hub_download` is not used: huggingface_hub 1.x gives every attempt a file name of its own and deletes it on failure
(its issue #4196), so a download interrupted at 1.8 of 1.9 GB would start over. The hub serves every file, including
xet-stored ones, over plain HTTP with ranges; its session, headers, token and error types are used for that.
"""

import errno
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
from huggingface_hub import HfApi, constants, hf_hub_url, is_offline_mode
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.hf_api import RepoSibling
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, http_stream_backoff

from utils.bases.catalog import DOWNLOADED
from utils.bases.find import BaseLock, FileEntry
from utils.errors import UserError

logger = logging.getLogger(__name__)

DEFAULT_REPOSITORY = "coqui/XTTS-v2"
REPOSITORY_VARIABLE = "XTTS_STUDIO_REPOSITORY"
NEEDED_FILES = ("model.pth", "config.json", "vocab.json", "dvae.pth", "mel_stats.pth")
OPTIONAL_FILES = ("speakers_xtts.pth", "LICENSE.txt", "README.md")

MAX_FRUITLESS_TRIES = 5
"""A transfer is given up after this many attempts in a row that brought no byte."""
RETRY_WAIT_S = 1.0
"""Pause before the first new attempt; it doubles with each further one."""
LISTING_TIMEOUT_S = 30.0

_FULL = {errno.ENOSPC, errno.EDQUOT}
_TRANSIENT_STATUS = {408, 500, 502, 503, 504}


def describe(hub: BaseLock) -> BaseLock:
    """What a revision holds now: its commit, and size and digest of each file of a base.

    Raises:
        UserError: the revision lacks a file that a base needs, or what answers is not a hub.
        httpx.HTTPError, HFValidationError: see `explained`.
    """
    api = HfApi(endpoint=hub.endpoint)
    try:
        info = api.model_info(hub.repository, revision=hub.revision, files_metadata=True, timeout=LISTING_TIMEOUT_S)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        fix = "check HF_ENDPOINT, and whether a proxy or a login page intercepts the request"
        raise UserError(
            what="the server does not respond like a Hugging Face hub", where=hub.endpoint, fix=fix
        ) from error
    entries = {sibling.rfilename: _entry(sibling) for sibling in info.siblings or []}
    missing = [name for name in NEEDED_FILES if entries.get(name) is None]
    if missing or not info.sha:
        raise UserError(
            what=f"revision {hub.revision} is not an XTTS v2 base; missing: {', '.join(missing) or 'a commit'}",
            where=hub.page,
            fix=f"choose another repository with --repository or {REPOSITORY_VARIABLE}",
        )
    files = tuple(entry for name in NEEDED_FILES + OPTIONAL_FILES if (entry := entries.get(name)) is not None)
    return replace(hub, commit=info.sha, files=files)


def fetch(lock: BaseLock, entry: FileEntry, *, part: Path, report: Callable[[int], None]) -> None:
    """Append to `part` until it has the file's size; what it holds already is not asked for again.

    Args:
        lock: where to take it from.
        entry: the file wanted.
        part: file that receives the bytes; survives every failure.
        report: called with the bytes of this file that are on disk.

    Raises:
        httpx.HTTPError: the hub refused, or the connection kept failing.
        OSError: the disk is full or not writable.
    """
    url = hf_hub_url(lock.repository, entry.name, revision=lock.commit, endpoint=lock.endpoint)
    part.touch()
    fruitless = 0
    while (have := part.stat().st_size) < entry.size:
        try:
            _receive(url, part, size=entry.size, report=report)
        except httpx.HTTPError as error:
            fruitless = 0 if part.stat().st_size > have else fruitless + 1
            if not _is_transient(error) or fruitless >= MAX_FRUITLESS_TRIES:
                raise
            logger.warning("%s: %s; continuing at byte %d", entry.name, error, part.stat().st_size)
            time.sleep(RETRY_WAIT_S * 2**fruitless)


def choose_hub(version: str, repository: str | None = None) -> BaseLock:
    """Where a version is downloaded from; HF_ENDPOINT and XTTS_STUDIO_REPOSITORY are read now, not at import.

    Raises:
        UserError: there is no such version.
    """
    if version not in DOWNLOADED:
        raise UserError(
            what=f"{version!r} is not a base that can be downloaded",
            where="version",
            fix=f"choose one of: {', '.join(DOWNLOADED)}",
        )
    endpoint = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    chosen = repository or os.environ.get(REPOSITORY_VARIABLE) or DEFAULT_REPOSITORY
    return BaseLock(endpoint=endpoint.rstrip("/"), repository=chosen, revision=version)


def is_offline() -> bool:
    """Whether HF_HUB_OFFLINE forbids requests; huggingface_hub itself looks only when it is imported."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in constants.ENV_VARS_TRUE_VALUES or is_offline_mode()


@contextmanager
def explained(hub: BaseLock, folder: Path) -> Iterator[None]:
    """Turn faults of the hub, the network and the disk into UserErrors.

    Args:
        hub: who is asked.
        folder: where the base is written.

    Raises:
        UserError: a fault the user can fix.
    """
    try:
        yield
    except HFValidationError as error:
        raise UserError(
            what=f"{hub.repository!r} is not a repository name: {error}",
            where=f"--repository or {REPOSITORY_VARIABLE}",
            fix="give it as owner/name, such as coqui/XTTS-v2",
        ) from error
    except OfflineModeIsEnabled as error:
        fix = "unset it and run the command again"
        raise UserError(what="HF_HUB_OFFLINE forbids requests", where=hub.page, fix=fix) from error
    except HfHubHTTPError as error:
        raise _refusal(error, hub) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UserError(
            what=f"the connection failed: {error or type(error).__name__}",
            where=hub.endpoint,
            fix="check the network, proxy and HF_ENDPOINT, then run the download again; it resumes where it stopped",
        ) from error
    except OSError as error:
        what, fix = f"the folder cannot be written: {error.strerror or error}", "choose a folder that can be written"
        if error.errno in _FULL:
            what, fix = "the disk is full", "free some space and run the download again; it resumes where it stopped"
        raise UserError(what=what, where=str(folder), fix=f"{fix}, or set XTTS_STUDIO_BASES") from error


def _receive(url: str, part: Path, *, size: int, report: Callable[[int], None]) -> None:
    """One request for the rest of a file; redirects to the hub's storage are followed without the user's token."""
    have = part.stat().st_size
    headers = {**build_hf_headers(), "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    # Only "too many requests" is waited out in there, as the hub asks; a failed transfer must come back to `fetch`.
    with http_stream_backoff(
        "GET",
        url,
        headers=headers,
        timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT,
        retry_on_exceptions=(),
        retry_on_status_codes=(429,),
    ) as response:
        hf_raise_for_status(response)
        # 200 instead of 206: this server knows no ranges and sends the file from its first byte.
        with part.open("ab" if response.status_code == 206 else "wb") as file:
            # No chunk size: whole chunks would be collected in memory and lost with the connection.
            for chunk in response.iter_bytes():
                file.write(chunk)
                report(file.tell())
                if file.tell() > size:
                    return
    if part.stat().st_size < size:
        raise httpx.RemoteProtocolError(f"the connection closed early, at {part.stat().st_size} of {size} bytes")


def _is_transient(error: httpx.HTTPError) -> bool:
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code in _TRANSIENT_STATUS
    return isinstance(error, httpx.NetworkError | httpx.TimeoutException | httpx.RemoteProtocolError)


def _entry(sibling: RepoSibling) -> FileEntry | None:
    """A listed file with the hub's own digest; None when the hub gave none."""
    name = sibling.rfilename
    if sibling.lfs is not None:
        return FileEntry(name=name, size=sibling.lfs.size, algorithm="sha256", digest=sibling.lfs.sha256)
    if sibling.size is None or sibling.blob_id is None:
        return None
    return FileEntry(name=name, size=sibling.size, algorithm="git_sha1", digest=sibling.blob_id)


def _refusal(error: HfHubHTTPError, hub: BaseLock) -> UserError:
    """The hub answered, with an error status."""
    if isinstance(error, GatedRepoError):
        what = f"{hub.repository} requires you to accept its conditions on its page"
        fix = f"accept them at {hub.page}, then log in with: hf auth login (or set HF_TOKEN)"
    elif isinstance(error, RepositoryNotFoundError):
        what = f"repository {hub.repository} does not exist or is private"
        fix = f"check --repository and {REPOSITORY_VARIABLE}; for a private one log in with: hf auth login"
    elif isinstance(error, RevisionNotFoundError):
        what = f"{hub.repository} has no revision {hub.revision}"
        fix = "choose another version, or another repository with --repository"
    else:
        what = f"the hub returned status {error.response.status_code}: {error.server_message or error}"
        fix = "run the download again later; it resumes where it stopped; for status 401 or 403 check HF_TOKEN"
    return UserError(what=what, where=hub.page, fix=fix)
