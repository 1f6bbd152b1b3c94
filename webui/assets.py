"""Serve the page compressed, and its scripts and styles from gradio's folder to browsers on this computer.

gradio compresses each script again for every page, which delays the first paint, and the page itself, which holds all
components, never. Here a script is compressed once; its name changes with its content, so a browser need not ask for
it twice.
"""

import gzip
import mimetypes
from pathlib import Path

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX = "/assets/"
HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
"""A browser may keep it forever."""
LEVEL = 6
"""Of gzip: more costs time and saves little."""


def with_assets(app: ASGIApp, *, folder: Path) -> ASGIApp:
    """An app that answers for what lies in gradio's folder of assets; all else is for what comes behind.

    Args:
        app: what comes behind it.
        folder: its files are served by name; it is read once.
    """
    paths = {path.name: path for path in folder.iterdir() if path.is_file()} if folder.is_dir() else {}
    compressed: dict[str, bytes] = {}
    page = GZipMiddleware(app, minimum_size=1_000, compresslevel=LEVEL)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        path = paths.get(scope.get("path", "").removeprefix(PREFIX)) if _is_near(scope) else None
        if path is None:
            # Not what streams, such as events and sound.
            is_page = scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == "/"
            await (page if is_page else app)(scope, receive, send)
            return
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        # A few kilobytes from the system's cache: quicker read here than by another thread.
        content, encoding = path.read_bytes(), "identity"
        if "gzip" in Headers(scope=scope).get("accept-encoding", "") and not kind.startswith(("font/", "image/")):
            if path.name not in compressed:
                compressed[path.name] = gzip.compress(content, LEVEL)
            content, encoding = compressed[path.name], "gzip"
        # gradio, which stands around this app, leaves alone what has an encoding.
        response = Response(content, media_type=kind, headers=HEADERS | {"Content-Encoding": encoding})
        await response(scope, receive, send)

    return answer


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
