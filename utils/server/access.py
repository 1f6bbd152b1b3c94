"""Who may ask a server of this project, and how much: hosts, origins, sizes of bodies, API keys; the page's rules, too.

Keys come from the command line, the environment or a file, or are made once.
"""

import ipaddress
import os
import secrets
import socket
from collections.abc import MutableMapping, Sequence
from hmac import compare_digest
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from utils.errors import UserError, disk_errors

LOOPBACK_NAMES = ("localhost",)
KEY, KEY_FILE = "XTTS_STUDIO_API_KEY", "XTTS_STUDIO_API_KEY_FILE"
"""Variables with a key, and with the path of a file that has one a line."""
MADE_FILE = ".api-key"
"""The key that was made, in the output folder, so that the next start has the same."""
MIN_KEY = 16
KEY_BYTES = 24


def is_loopback(host: str) -> bool:
    """Whether only programs on this computer can reach this address."""
    if host.lower() in LOOPBACK_NAMES:
        return True
    return is_address(host) and ipaddress.ip_address(host.strip("[]")).is_loopback


def is_address(host: str) -> bool:
    """Whether this is an address out of digits, not a name."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def hostname(host: str) -> str:
    """The host of a Host header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_trusted(host: str, listening: str, names: Sequence[str] = ()) -> bool:
    """Whether a browser that believes to talk to this host talks to us by intention.

    A page of a stranger can make its own name point to this computer (DNS rebinding), but it cannot make an
    address out of digits do so: these are always trusted.

    Args:
        host: name or address, without the port.
        listening: the address that the server listens on.
        names: beside this computer's own, as behind a proxy.
    """
    name = host.lower().rstrip(".")
    own = {*LOOPBACK_NAMES, listening.lower(), *(trusted.lower() for trusted in names)}
    if not is_loopback(listening):
        own |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    return is_address(name) or name in own


def is_own_origin(headers: Headers) -> bool:
    """Whether a request comes from a page that this server showed, or from no page at all."""
    origin = headers.get("origin")
    if origin is None:
        # Scripts send none. Browsers that tell where a request comes from tell it without an origin as well.
        is_foreign = headers.get("sec-fetch-site") == "cross-site"
        return not is_foreign or headers.get("sec-fetch-mode") == "navigate"
    netloc = urlsplit(origin).netloc.lower()
    return bool(netloc) and netloc == headers.get("host", "").lower()


def limited(receive: Receive, limit: int) -> Receive:
    """Receives a request's body up to a limit, also when it does not tell its length beforehand.

    Args:
        receive: where the body comes from.
        limit: bytes.
    """
    left = limit

    async def up_to_limit() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        return message if left >= 0 else {"type": "http.disconnect"}

    return up_to_limit


def find_keys(given: str, environment: MutableMapping[str, str], output: Path, *, make: bool) -> tuple[list[str], str]:
    """Keys of which a request must bring one.

    Args:
        given: value of --api-key: a key, or @FILE with one a line; empty for none.
        environment: of this process; the variables are taken out of it.
        output: folder of all projects.
        make: make and keep a key where none is given.

    Returns:
        The keys, none where none is needed; and what to print about them.

    Raises:
        UserError: a key cannot be read or is too short.
    """
    key, file = environment.pop(KEY, ""), environment.pop(KEY_FILE, "")
    if given:
        return _checked(_read(Path(given[1:])) if given.startswith("@") else [given], "--api-key"), ""
    if key and file:
        raise UserError(what="two keys are set", where=f"{KEY} and {KEY_FILE}", fix="unset one of them")
    if key:
        return _checked([key], KEY), ""
    if file:
        return _checked(_read(Path(file)), KEY_FILE), ""
    return _made(output) if make else ([], "")


def is_valid(key: str, keys: list[str]) -> bool:
    """Whether a key is one of those; takes the same time whichever letters are wrong."""
    matches = [compare_digest(key.encode(), known.encode()) for known in keys]
    return any(matches)


@disk_errors()
def _made(output: Path) -> tuple[list[str], str]:
    path = output / MADE_FILE
    output.mkdir(parents=True, exist_ok=True)
    try:
        # Readable by its owner only from the first byte on.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _checked(_read(path), str(path)), f"The API key is stored in {path}."
    key = secrets.token_urlsafe(KEY_BYTES)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(key + "\n")
        file.flush()
        os.fsync(file.fileno())
    return [key], f"New API key, printed only this once: {key}\nIt is stored in {path}."


def _read(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(what=f"the API keys cannot be read: {error}", where=str(path)) from error
    return [line.strip() for line in lines if line.strip()]


def _checked(keys: list[str], where: str) -> list[str]:
    # The key itself is not quoted.
    if not keys or any(len(key) < MIN_KEY for key in keys):
        raise UserError(what="the API key is missing or too short", where=where, fix=f"use {MIN_KEY} letters or more")
    return keys
