"""The language of a request: what the address of the page names, such as `?lang=es`, or what its browser prefers."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from urllib.parse import parse_qs

from gradio.context import LocalContext
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webui.text.catalog import PAGE_LANGUAGES, SOURCE, speaking

SCRIPT = f"""<head><script>{{
  // gradio's own words follow the browser, which its scripts ask before those of the page are there.
  const asked = [new URL(location.href).searchParams.get('lang'), ...navigator.languages.map(one => one.split('-')[0])]
  const spoken = asked.find(code => {list(PAGE_LANGUAGES)}.includes(code)) ?? '{SOURCE}'
  document.documentElement.lang = spoken
  if (!navigator.language.startsWith(spoken)) Object.defineProperty(navigator, 'language', {{ get: () => spoken }})
}}</script>"""


def language_of(headers: Mapping[str, str]) -> str:
    """The page's language for who sends these headers.

    Scripts send neither an address of the page nor `Accept-Language`, and are answered in English.

    Args:
        headers: of the request; what the page itself asks for names the page as its referrer.
    """
    named = parse_qs(headers.get("referer", "").partition("?")[2]).get("lang", [""])[0]
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


def with_page_language(app: ASGIApp) -> ASGIApp:
    """An app that serves the page with the script that sets its language."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"] != "/":
            await app(scope, receive, send)
            return
        messages: list[Message] = []

        async def keep(message: Message) -> None:
            messages.append(message)

        await app(scope, receive, keep)
        start, *parts = messages
        page = b"".join(part.get("body", b"") for part in parts).replace(b"<head>", SCRIPT.encode(), 1)
        MutableHeaders(scope=start)["content-length"] = str(len(page))
        await send(start)
        await send({"type": "http.response.body", "body": page})

    return answer
