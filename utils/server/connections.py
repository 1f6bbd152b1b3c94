"""Connections that a client may hold: few for each address, and only with a whole header."""

import asyncio
from typing import Any

import h11
from starlette.applications import Starlette
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

CONNECTIONS_A_REQUEST = 4
"""Open connections per request that may be spoken at once; more are answered with 503."""
ADDRESS_SHARE = 2
"""One address may hold the whole number divided by this."""
HEADER_TIMEOUT_S = 10.0
"""Seconds from a connection, or from the first byte of its next request, to the end of the request's header."""
END_S = 5
"""Seconds in which answers that are being sent may end when the server is stopped."""


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
