"""The login of a page started without --auth: from the environment, or generated at the first start."""

import os
import secrets
from collections.abc import MutableMapping
from pathlib import Path

from utils.errors import UserError, disk_errors
from webui.security import Login, read_auth

LOGIN = "XTTS_STUDIO_LOGIN"
"""Variable with NAME:PASSWORD."""
LOGIN_FILE = "XTTS_STUDIO_LOGIN_FILE"
"""Variable with the path of a file (a secret) with one NAME:PASSWORD a line."""
MADE_FILE = ".login"
"""The login that was made, in the output folder, so that the next start has the same."""
MADE_NAME = "studio"
PASSWORD_BYTES = 12


def find_login(auth: str, environment: MutableMapping[str, str], output: Path, *, make: bool) -> tuple[Login, str]:
    """Who may use the page: --auth, else what the environment gives, else the login that was made.

    The variables are taken out of the environment: the jobs that the page starts have no use for a password.

    Args:
        auth: value of --auth; empty for none.
        environment: of this process.
        output: folder of all projects.
        make: make and keep a login where none is given.

    Returns:
        Names and passwords, and what to print about them; both may be empty.

    Raises:
        UserError: two logins are given, one cannot be read, or its password is too short.
    """
    given, file = environment.pop(LOGIN, ""), environment.pop(LOGIN_FILE, "")
    if auth:
        return read_auth(auth), ""
    if given and file:
        raise UserError(what="two logins are set", where=f"{LOGIN} and {LOGIN_FILE}", fix="unset one of them")
    if given:
        # A value that begins with @ is a login here, never a file: a message about the file would show it.
        return read_auth(given, where=LOGIN, is_text=True), ""
    if file:
        return read_auth(f"@{file}", where=f"{LOGIN_FILE}={file}"), ""
    return _made(output) if make else ((), "")


@disk_errors()
def _made(output: Path) -> tuple[Login, str]:
    """The login of the output folder; made when it has none."""
    path = output / MADE_FILE
    output.mkdir(parents=True, exist_ok=True)
    try:
        # Readable by its owner only from the first byte on.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        kept = f"delete {path} to create a new login, or set one in {LOGIN}"
        return read_auth(f"@{path}", where=str(path), fix=kept), f"The login is stored in {path}."
    line = f"{MADE_NAME}:{secrets.token_urlsafe(PASSWORD_BYTES)}"
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())
    return read_auth(line), f"New login, printed only this once: {line}\nIt is stored in {path}."
