"""Turn errors of the hub, the network and the disk into messages for users."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from utils.bases.hub import REPOSITORY_VARIABLE, Hub
from utils.errors import UserError

_FULL = {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def explained(hub: Hub, folder: Path) -> Iterator[None]:
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


def _refusal(error: HfHubHTTPError, hub: Hub) -> UserError:
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
