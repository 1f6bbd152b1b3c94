"""What every request passes first: its connection, host, origin, size and key; and how its answer is counted."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import h11
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

from utils.inference.generation import RequestError, SpeechCounts
from utils.server.access import hostname, is_loopback, is_own_origin, is_trusted, is_valid, limited
from utils.server.api import UNREAD, as_request_error, error_response
from utils.server.settings import ServerConfig

MAX_BODY_BYTES = 2**20
"""Of a request that is no upload."""
SEND_TIMEOUT_S = 60.0
"""A client that takes nothing for this long is disconnected."""
CONNECTIONS_A_REQUEST = 4
"""Open connections per request that may be spoken at once; more are answered with 503."""
ADDRESS_SHARE = 2
"""One address may hold the whole number divided by this."""
HEADER_TIMEOUT_S = 10.0
"""Seconds from a connection, or from the first byte of its next request, to the end of the request's header."""
END_S = 5
"""Seconds in which answers that are being sent may end when the server is stopped."""
REST_S = 2.0
"""How long a body that is too large is read before it is answered."""
UPLOAD_PATHS = ("/v1/audio/voices",)
OPEN_PATHS = ("/health", "/docs", "/openapi.json")
"""Answered without a key: they tell nothing that a stranger could use."""
SECURITY_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
ALLOWED_HEADERS = "authorization, cache-control, content-type"

log = logging.getLogger(__name__)


class Guard:
    """Middleware around all routes.

    Args:
        app: what comes behind it.
        config: whom to answer, and how much.
        keys: a request must bring one of these; none is needed where there are none.
        counts: takes the number of answers.
    """

    def __init__(self, app: ASGIApp, *, config: ServerConfig, keys: Sequence[str], counts: SpeechCounts) -> None:
        self._app, self._config, self._keys, self._counts = app, config, list(keys), counts
        self._origins = [origin.rstrip("/") for origin in config.allow_origin]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            # The web server drops the body of the answer.
            scope = {**scope, "method": "GET"}
        status, is_whole = "aborted", False
        headers = Headers(scope=scope)
        origin = headers.get("origin", "").rstrip("/")

        async def counted(message: Message) -> None:
            nonlocal status, is_whole
            if message["type"] == "http.response.start":
                status = str(message["status"])
                self._add_headers(MutableHeaders(scope=message), origin)
            # Without a reader, sending would wait for ever.
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await send(message)
            is_whole = message["type"] == "http.response.body" and not message.get("more_body", False)

        try:
            await self._answer(scope, headers, origin, receive, counted)
        except Exception as error:
            if status != "aborted":
                # An answer that was begun can only be broken off: the client sees that it is not whole.
                log.info("%s %s broken off: %s", scope["method"], scope["path"], str(error).split("\n")[0])
            else:
                fault = as_request_error(error)
                if fault.status == 500:
                    log.exception("%s %s", scope["method"], scope["path"])
                if fault.status == 413:
                    await _take_rest(receive)
                await error_response(fault)(scope, receive, counted)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self._counts.requests[route, status if is_whole else "aborted"] += 1

    async def _answer(self, scope: Scope, headers: Headers, origin: str, receive: Receive, send: Send) -> None:
        is_upload = scope["path"].rstrip("/") in UPLOAD_PATHS
        # The form around a file takes some bytes, too.
        limit = self._config.max_upload_mb * 2**20 + MAX_BODY_BYTES if is_upload else MAX_BODY_BYTES
        self._check(scope, headers, origin, limit)
        if scope["method"] == "OPTIONS" and origin in self._origins:
            # A browser asks before it sends a request of another site's page.
            allowed = {"Access-Control-Allow-Methods": "GET, POST, DELETE", "Access-Control-Max-Age": "600"}
            await Response(status_code=204, headers=allowed)(scope, receive, send)
            return
        await self._app(scope, limited(receive, limit), send)

    def _check(self, scope: Scope, headers: Headers, origin: str, limit: int) -> None:
        """Do nothing when a request may be answered.

        Raises:
            RequestError: it may not.
        """
        if not is_trusted(hostname(headers.get("host", "")), self._config.host, self._config.trusted_host):
            fix = "start the server with --trusted-host NAME"
            raise RequestError(what="unknown host name", fix=fix, status=421, code="unknown_host")
        if origin not in self._origins and not is_own_origin(headers) and not self._plays(scope, headers):
            what, fix = "this request comes from another site", "start the server with --allow-origin and its address"
            raise RequestError(what=what, fix=fix, status=403, code="foreign_origin")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > limit:
            what = f"the request is too large; it may have {limit} bytes"
            raise RequestError(what=what, status=413, code="request_too_large")
        is_asking = scope["method"] == "OPTIONS" and origin in self._origins
        if self._keys and scope["path"] not in OPEN_PATHS and not is_asking:
            scheme, _, key = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not is_valid(key.strip(), self._keys):
                fix = "send one as the header `Authorization: Bearer KEY`"
                raise RequestError(what="incorrect API key", fix=fix, status=401, code="invalid_api_key")

    def _plays(self, scope: Scope, headers: Headers) -> bool:
        """Whether a page that may ask plays a sound: audio elements send no Origin, and no page can forge a Referer."""
        page = urlsplit(headers.get("referer", ""))
        is_known = f"{page.scheme}://{page.netloc}" in self._origins or is_loopback(page.hostname or "")
        return "origin" not in headers and scope["method"] == "GET" and is_known

    def _add_headers(self, headers: MutableHeaders, origin: str) -> None:
        for name, value in SECURITY_HEADERS.items():
            headers.setdefault(name, value)
        if origin in self._origins:
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Allow-Headers"] = ALLOWED_HEADERS
            headers["Access-Control-Expose-Headers"] = UNREAD
            headers["Vary"] = "Origin"


async def _take_rest(receive: Receive) -> None:
    """Read what is still sent of a body: closing the connection before resets it, and the client loses the answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(REST_S):
            while (await receive()).get("more_body", False):
                pass


class Connection(H11Protocol):
    """An HTTP connection that is closed where its header does not come, or its address holds too many."""

    _header_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client and self.client[0]
        held = sum(
            isinstance(one, Connection) and (one.client and one.client[0]) == address for one in self.connections
        )
        if self.limit_concurrency and held > self.limit_concurrency // ADDRESS_SHARE:
            transport.write(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            transport.close()
        self._await_header()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._await_header()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget_header()

    def _await_header(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._forget_header()
        elif self._header_due is None:
            self._header_due = self.loop.call_later(HEADER_TIMEOUT_S, self.transport.close)

    def _forget_header(self) -> None:
        if self._header_due is not None:
            self._header_due.cancel()
            self._header_due = None


def http_settings(application: Starlette, *, max_requests: int) -> Config:
    """How uvicorn serves the application.

    Args:
        application: of `utils.server.application`.
        max_requests: in progress at once.
    """
    options: dict[str, Any] = {"log_config": None, "log_level": "critical", "access_log": False}  # the guard logs
    return Config(
        application,
        http=Connection,
        server_header=False,
        limit_concurrency=CONNECTIONS_A_REQUEST * max_requests,
        timeout_graceful_shutdown=END_S,
        **options,
    )
