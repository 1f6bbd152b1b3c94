"""Which Host and Origin headers a server of this project trusts, and bodies of limited size; the page's rules, too."""

import ipaddress
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Message, Receive

LOOPBACK_NAMES = ("localhost",)


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


class Limited:
    """Receives a request's body up to a limit, also when it does not tell its length beforehand.

    Args:
        receive: where the body comes from.
        limit: bytes.
    """

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._left = receive, limit

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            return {"type": "http.disconnect"}
        return message
