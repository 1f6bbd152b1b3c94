"""Serve the page's scripts and styles from gradio's folder uncompressed to browsers on this computer.

gradio compresses each of them anew for every page. That pays over a network; between two programs on one computer it
only delays the first paint, and their names change with their content, so a browser need not ask for them twice.
"""

import mimetypes
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX = "/assets/"
HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "Content-Encoding": "identity"}
"""A browser may keep it for good; gradio, which stands around this app, leaves alone what has an encoding."""


class Assets:
    """Answers for what lies in gradio's folder of assets; all else is for what comes behind.

    Args:
        app: what comes behind it.
        folder: its files are served by name; it is read once.
    """

    def __init__(self, app: ASGIApp, *, folder: Path) -> None:
        self.app = app
        self._paths = {path.name: path for path in folder.iterdir() if path.is_file()} if folder.is_dir() else {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = self._paths.get(scope.get("path", "").removeprefix(PREFIX)) if _is_near(scope) else None
        if path is None:
            await self.app(scope, receive, send)
            return
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        # A few kilobytes from the system's cache: quicker read here than by another thread.
        response = Response(path.read_bytes(), media_type=kind, headers=HEADERS)
        await response(scope, receive, send)


def gradio_assets() -> Path:
    """Where gradio keeps what its page loads."""
    import gradio

    return Path(gradio.__file__).parent / "templates" / "frontend" / "assets"


def _is_near(scope: Scope) -> bool:
    """Whether a browser on this computer asks for an asset, itself and not through a proxy."""
    if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith(PREFIX):
        return False
    headers, client = Headers(scope=scope), scope.get("client")
    return client is not None and client[0] in ("127.0.0.1", "::1") and "x-forwarded-for" not in headers
