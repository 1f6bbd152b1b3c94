"""The language of a request: what the address of the page names, such as `?lang=es`, or what its browser prefers."""

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from urllib.parse import parse_qs

from gradio.context import LocalContext
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webui.text.catalog import PAGE_LANGUAGES, SOURCE, language, speaking


def language_of(headers: Mapping[str, str], query: str = "") -> str:
    """The page's language for who sends these headers.

    Scripts send neither an address of the page nor `Accept-Language`, and are answered in English.

    Args:
        headers: of the request; what the page itself asks for names the page as its referrer.
        query: the query of the request's own address.
    """
    named = parse_qs(query or headers.get("referer", "").partition("?")[2]).get("lang", [""])[0]
    if named in PAGE_LANGUAGES:
        return named
    weights: dict[str, float] = {}
    for wanted in headers.get("accept-language", "").lower().split(","):
        tag, _, weight = wanted.partition(";q=")
        code = tag.strip().split("-")[0]
        try:
            weights[code] = max(float(weight or 1), weights.get(code, 0))
        except ValueError:
            continue
    # What is asked for first wins among equals; "*" and "not at all" ask for nothing.
    offered = (code for code in sorted(weights, key=weights.__getitem__, reverse=True) if weights[code] > 0)
    return next((code for code in offered if code in PAGE_LANGUAGES), SOURCE)


def speaking_as_asked() -> AbstractContextManager[None]:
    """Answers an event in the language of who caused it: for handlers that gradio calls."""
    event = LocalContext.request.get(None)
    request = event.request if event is not None else None
    return speaking(language_of(request.headers) if request is not None else SOURCE)


LANGUAGE = re.compile(rb'(<html[^>]*?\blang=)"\w+"(.*?<head>)', re.DOTALL)
SPOKEN = """<script>
  // gradio's own words follow the browser, and shall follow the page.
  if (!navigator.language.startsWith('%s')) Object.defineProperty(navigator, 'language', { get: () => '%s' })
</script>"""


class PageLanguage:
    """Serves each request in its language, which the page itself names."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_http = scope["type"] == "http"
        with speaking(
            language_of(Headers(scope=scope), scope["query_string"].decode("latin-1")) if is_http else SOURCE
        ):
            is_page = is_http and scope["method"] == "GET" and scope["path"] == "/"
            await self.app(scope, receive, _naming(send, language()) if is_page else send)


def _naming(send: Send, code: str) -> Send:
    """Sends the page, when it is whole, with its language."""
    start: Message = {}
    parts: list[bytes] = []

    async def send_page(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
            return
        parts.append(message.get("body", b""))
        if message.get("more_body"):
            return
        script = SPOKEN % (code, code)
        page = LANGUAGE.sub(rf'\1"{code}"\2{script}'.encode(), b"".join(parts), count=1)
        MutableHeaders(scope=start)["content-length"] = str(len(page))
        await send(start)
        await send({"type": "http.response.body", "body": page})

    return send_page
