"""The license of the XTTS weights: show its name and link, and record one acceptance per repository.

`license.json` is stored next to the bases, so that one acceptance covers all versions of a repository.
"""

import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from utils.bases.find import read_json, write_json
from utils.errors import UserError

logger = logging.getLogger(__name__)

RECORD_NAME = "license.json"
LICENSE_NAME = "Coqui Public Model License (CPML)"
LICENSE_LINK = "https://coqui.ai/cpml"

AGREEMENT_VARIABLE = "COQUI_TOS_AGREED"
"""Set to 1 it agrees to the license, as coqui-tts itself takes it."""
AGREE = f"give --accept-license (from Python: accept_license=True), or set {AGREEMENT_VARIABLE}=1"
"""The ways in which the license is agreed to, for messages."""

Ask = Callable[[str], bool]
"""Shows the license to the user and returns whether they accept it."""


def is_accepted(bases: Path, repository: str) -> bool:
    """Whether the license of `repository` was accepted for the bases in this folder.

    Raises:
        UserError: the record cannot be read.
    """
    return any(record.get("repository") == repository for record in _records(bases))


def is_agreed_by_environment() -> bool:
    """Whether the user's environment agrees to the license."""
    return os.environ.get(AGREEMENT_VARIABLE) == "1"


def require_license(
    bases: Path, *, repository: str, link: str, accept: bool, ask: Ask | None, read_text: Callable[[], str]
) -> None:
    """Return when the license is accepted, now or before; a new acceptance is recorded.

    Args:
        bases: folder of the record, beside the bases.
        repository: whose weights.
        link: address of the repository's own copy of the license, or of the repository when it has none.
        accept: the user gave the flag; the license is then shown in the log, as it is where the environment agrees.
        ask: puts the question to a person who is present.
        read_text: gives the repository's own license text; called only to show it.

    Raises:
        UserError: it was not accepted.
    """
    if is_accepted(bases, repository):
        return
    notice = f"The weights of {repository} are under the {LICENSE_NAME}: {LICENSE_LINK}\nThe repository's copy: {link}"
    if accept:
        logger.info("%s\nAccepted by --accept-license.", notice)
    elif is_agreed_by_environment():
        logger.info("%s\nAccepted by %s=1.", notice, AGREEMENT_VARIABLE)
    elif ask is None:
        raise _refused(f"the license of {repository} has not been accepted: {LICENSE_NAME}, {LICENSE_LINK}", link)
    elif not ask(f"{notice}\n\n{read_text()}".rstrip()):
        raise _refused(f"the license of {repository} was declined, so nothing is downloaded", link)
    time = datetime.now(UTC).isoformat(timespec="seconds")
    record = {"repository": repository, "license": LICENSE_NAME, "link": LICENSE_LINK, "time": time}
    bases.mkdir(parents=True, exist_ok=True)
    write_json(bases / RECORD_NAME, {"accepted": [*_records(bases), record]})


def _refused(what: str, link: str) -> UserError:
    fix = f"read it, then {AGREE}; or run the command in a terminal and answer yes"
    return UserError(what=what, where=link, fix=fix)


def _records(bases: Path) -> list[dict[str, str]]:
    path = bases / RECORD_NAME
    if not path.is_file():
        return []
    records = read_json(path).get("accepted")
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise UserError(
            what="not a record of accepted licenses", where=str(path), fix="delete it and accept the license again"
        )
    return records
