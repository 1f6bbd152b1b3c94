"""Serve the sound of takes while they are spoken: GET /speech/PROJECT/TAKE, for the player in player.js."""

from collections.abc import Callable
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from utils.speech.live_sound import LiveSound

PREFIX = "/speech/"
HEADERS = {"Cache-Control": "no-store", "Content-Encoding": "identity"}
"""gradio leaves alone what has an encoding: its compression would keep chunks back."""
FindSound = Callable[[str, str], LiveSound | None]


def with_sounds(app: ASGIApp, *, find: FindSound) -> ASGIApp:
    """An app that answers for the sound of takes; all else is for what comes behind.

    Args:
        app: what comes behind it.
        find: the sound of a project's take, while it can be followed.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not scope["path"].startswith(PREFIX):
            await app(scope, receive, send)
            return
        project, _, take = scope["path"].removeprefix(PREFIX).partition("/")
        if not _is_logged_in(Request(scope)):
            await PlainTextResponse("Not authenticated", status_code=401)(scope, receive, send)
        elif (sound := find(project, take)) is None:
            await PlainTextResponse("Not found", status_code=404)(scope, receive, send)
        else:
            response = StreamingResponse(sound.follow(), media_type="application/octet-stream", headers=HEADERS)
            await response(scope, receive, send)

    return answer


def address(project: str, take: str) -> str:
    """Of a take's sound, relative to the page."""
    return f"{PREFIX[1:]}{quote(project, safe='')}/{quote(take, safe='')}"


def _is_logged_in(request: Request) -> bool:
    """As gradio's own routes ask, which this stands before."""
    app = request.app
    names = (f"access-token-{app.cookie_id}", f"access-token-unsecure-{app.cookie_id}")
    return app.auth is None or any(request.cookies.get(name) in app.tokens for name in names)
