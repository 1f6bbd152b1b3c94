"""Access control of the page: the address it listens on, allowed hosts and origins, size limits."""

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from utils.errors import UserError
from utils.hardware.resources import GIB, KEPT_FREE_BYTES
from utils.server.access import hostname, is_loopback, is_own_origin, is_trusted, limited
from webui.assets import gradio_assets, with_assets

SHARE_DOMAINS = (".gradio.live", ".gradio.app")
"""Where gradio's tunnel makes a shared page appear."""
MIN_PASSWORD = 8
MAX_GIB = 2**20
MAX_PORT = 65_535
MAX_SESSIONS = 100
"""Pages whose state is kept, 0.7 MB each; an older page is sent everything again."""
MAX_REQUEST_BYTES = 16 * 2**20
"""Of a request that is no upload: the longest text of a take fits several times."""
UPLOAD_PATH = "/gradio_api/upload"
CLOSED = (
    "/gradio_api/process_recording",
    "/gradio_api/vibe",
    "/gradio_api/undo-vibe",
    "/gradio_api/deep_link",
    "/gradio_api/proxy=",
    "/gradio_api/file=http:",
    "/gradio_api/file=https:",
    "/gradio_api/file/http:",
    "/gradio_api/file/https:",
    "/gradio_api/run-history",
    "/monitoring",
    "/gradio_api/monitoring",
)
"""What gradio serves and this app has no use for: fetching other addresses, recording, editing code, looking on."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""No guessing of file types, no page around ours, no address sent to other sites."""
Login = tuple[tuple[str, str], ...]
"""Names and passwords; empty for no login."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """Where the page listens and who may use it."""

    host: str = "127.0.0.1"
    port: int = 7860
    auth: Login = ()
    share: bool = False
    """A public address through gradio's servers."""
    trusted_hosts: tuple[str, ...] = ()
    """Names beside this computer's own under which browsers may ask, as behind a proxy."""
    max_upload_bytes: int = 2 * GIB
    """Of one file."""

    @property
    def here_only(self) -> bool:
        """Whether only programs on this computer can reach the page."""
        return is_loopback(self.host) and not self.share

    def checked(self) -> Self:
        """This, when strangers cannot use the page without a password.

        Raises:
            UserError: they could, or a password is too short.
        """
        if not self.auth and not self.here_only:
            where = "--share" if self.share else f"--host {self.host}"
            raise UserError(
                what="everyone who can reach this address could use the app without a password",
                where=where,
                fix="add --auth NAME:PASSWORD, --auth @FILE with one NAME:PASSWORD per line, or --make-login",
            )
        check_passwords(self.auth, where="--auth")
        if not 0 < self.port <= MAX_PORT:
            raise UserError(
                what=f"{self.port} is not a valid port", where="--port", fix=f"use a number from 1 to {MAX_PORT}"
            )
        if self.max_upload_bytes <= 0:
            raise UserError(
                what="the maximum upload size is not positive", where="--max-upload-gb", fix="use a positive number"
            )
        return self

    def launch_options(self, output: Path, *, secrets: Sequence[Path] = ()) -> dict[str, Any]:
        """Arguments of gradio's `launch`; nothing that matters is left to its defaults or its environment variables.

        Args:
            output: the only folder whose files are served.
            secrets: files that are not served, wherever they lie.
        """
        middleware = [Middleware(PageGuard, access=self)]
        if not self.share:
            # Through gradio's tunnel strangers look like this computer.
            middleware.append(Middleware(with_assets, folder=gradio_assets()))
        return {
            "quiet": True,
            "footer_links": [],
            "prevent_thread_lock": True,
            "server_name": self.host,
            "server_port": self.port,
            "auth": list(self.auth) or None,
            "share": self.share,
            "allowed_paths": [str(output)],
            "blocked_paths": [str(path) for path in secrets],
            "max_file_size": self.max_upload_bytes,
            "enable_monitoring": False,
            "run_history": False,
            "mcp_server": False,
            "strict_cors": True,
            "ssr_mode": False,
            "show_error": False,
            "num_workers": 0,
            "state_session_capacity": MAX_SESSIONS,
            # Of no other effect than that gradio does not ask itself for the page first: on a busy machine
            # it would give up after three seconds.
            "_frontend": False,
            "app_kwargs": {"middleware": middleware, "docs_url": None, "redoc_url": None},
        }

    def is_trusted(self, host: str) -> bool:
        """As `hosts.is_trusted`, with the names of a shared page.

        Args:
            host: name or address, without the port.
        """
        is_shared = self.share and host.lower().rstrip(".").endswith(SHARE_DOMAINS)
        return is_shared or is_trusted(host, self.host, self.trusted_hosts)


def access_of(flags: argparse.Namespace, auth: Login) -> Access:
    """What the command line's flags say.

    Args:
        flags: of the command line.
        auth: the login that was found (`webui.login`).

    Raises:
        UserError: they would let strangers in, or a value is not usable.
    """
    access = Access(
        host=flags.host,
        port=flags.port,
        auth=auth,
        share=flags.share,
        trusted_hosts=tuple(flags.trusted_host),
        max_upload_bytes=gibibytes(flags.max_upload_gb, flag="--max-upload-gb"),
    )
    return access.checked()


def gibibytes(value: float, *, flag: str) -> int:
    """This many GiB in bytes.

    Raises:
        UserError: it is no size: zero, negative, infinite or no number.
    """
    if not 0 < value < MAX_GIB:
        raise UserError(
            what=f"{value} GiB is not a valid size", where=flag, fix=f"use a number above 0 and below {MAX_GIB}"
        )
    return int(value * GIB)


def read_auth(
    value: str,
    *,
    where: str = "--auth",
    fix: str = "write a name, a colon and a password",
    is_text: bool = False,
) -> Login:
    """Names and passwords of --auth.

    Args:
        value: NAME:PASSWORD, or @FILE with one a line; empty for none.
        where: what gave it, for messages.
        fix: what to do where it holds none.
        is_text: a value that begins with @ is no file either.

    Raises:
        UserError: no such file, a line that is not NAME:PASSWORD, or a password that is too short.
    """
    if not value:
        return ()
    path = None if is_text or not value.startswith("@") else Path(value[1:])
    try:
        lines = [value] if path is None else path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        place = f"{where} {value}" if where == "--auth" else where
        raise UserError(what=f"the passwords cannot be read: {error}", where=place) from error
    pairs = [tuple(line.strip().split(":", 1)) for line in lines if line.strip()]
    if not pairs or any(len(pair) < 2 or not pair[0] for pair in pairs):
        # The line is not quoted: it may hold a password.
        raise UserError(what="the login is not in the form NAME:PASSWORD", where=where, fix=fix)
    return check_passwords(tuple((name, password) for name, password in pairs), where=where)


def check_passwords(auth: Login, *, where: str) -> Login:
    """The login, when no password of it is quickly guessed.

    Raises:
        UserError: one is too short.
    """
    short = [name for name, password in auth if len(password) < MIN_PASSWORD]
    if short:
        raise UserError(
            what=f"the password of {short[0]!r} is too short",
            where=where,
            fix=f"use {MIN_PASSWORD} characters or more",
        )
    return auth


class PageGuard:
    """Refuses what no browser that shows our own page would send, before gradio sees it.

    Args:
        app: what comes behind it.
        access: whom to answer.
    """

    def __init__(self, app: ASGIApp, *, access: Access) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        refusal = self.refusal(scope)
        if refusal is None:
            await self.app(scope, limited(receive, self.limit(scope)), _with_headers(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            status, reason = refusal
            await PlainTextResponse(reason, status_code=status)(scope, receive, send)

    def refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and reason when a request is not answered."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self.access.is_trusted(hostname(host)):
            return 421, "Unknown host name. Use http://127.0.0.1, or start the app with --trusted-host NAME."
        # Under --share as well: every stranger can have a name below gradio's domains.
        if not is_own_origin(headers):
            return 403, "This request comes from another site."
        path = "/" + scope["path"].lstrip("/")
        if any(path.startswith(closed) for closed in CLOSED):
            return 404, "Not found"
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self.limit(scope):
            return (
                413,
                "The request is too large. Upload fewer or smaller files, or increase --max-upload-gb.",
            )
        if path == UPLOAD_PATH and shutil.disk_usage(tempfile.gettempdir()).free <= int(length) + KEPT_FREE_BYTES:
            return 507, "The disk does not have enough free space for this upload."
        return None

    def limit(self, scope: Scope) -> int:
        """How many bytes a request may have: several large files may come in one."""
        return 32 * self.access.max_upload_bytes if scope["path"] == UPLOAD_PATH else MAX_REQUEST_BYTES


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return send_with_headers
