"""Clients that hold connections or send without an end: others are answered, and the connection is closed."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import httpx
import pytest
import uvicorn

from utils.server import api, guard
from utils.server.application import create_application
from utils.server.guard import http_settings
from utils.server.service import SpeechService
from utils.server.settings import ServerConfig

TIMEOUT_S = 1.5


@pytest.fixture
def port(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A server without an engine, with short time-outs."""
    monkeypatch.setattr(guard, "HEADER_TIMEOUT_S", TIMEOUT_S)
    monkeypatch.setattr(api, "BODY_TIMEOUT_S", TIMEOUT_S)
    application = create_application(api.SpeechApi(SpeechService(ServerConfig(output=tmp_path, max_requests=8))), [])
    with socket.create_server(("0.0.0.0", 0)) as listening:
        server = uvicorn.Server(http_settings(application, max_requests=8))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.02)
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join()


def health(port: int, source: str = "127.0.0.1") -> int:
    with httpx.Client(transport=httpx.HTTPTransport(local_address=source)) as client:
        return client.get(f"http://127.0.0.1:{port}/health", timeout=10).status_code


def half_headers(stack: ExitStack, port: int, number: int) -> list[socket.socket]:
    found = [stack.enter_context(closing(socket.create_connection(("127.0.0.1", port)))) for _ in range(number)]
    for one in found:
        one.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n")
    return found


def test_half_headers_block_their_own_address_only_and_only_for_a_while(port):
    with ExitStack() as stack:
        held = half_headers(stack, port, 40)
        time.sleep(0.2)
        assert health(port, "127.0.0.2") == 200
        assert health(port) == 429
        time.sleep(TIMEOUT_S + 0.5)
        assert health(port) == 200
        assert all(one.recv(200)[:12] in (b"", b"HTTP/1.1 429") for one in held)


def test_header_that_does_not_come_on_a_used_connection_closes_it(port):
    with closing(socket.create_connection(("127.0.0.1", port))) as one:
        one.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        answer = b""
        while b"models" not in answer:
            answer += one.recv(4096)
        assert answer.startswith(b"HTTP/1.1 200")
        one.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        one.settimeout(4 * TIMEOUT_S)
        assert one.recv(200) == b""


@pytest.mark.parametrize(("size", "status"), [(1, b"408"), (200_000, b"413")])
def test_chunked_body_without_an_end_is_answered_once_and_closed(port, size, status):
    chunk = f"{size:x}\r\n".encode() + b" " * size + b"\r\n"
    with closing(socket.create_connection(("127.0.0.1", port))) as one:
        one.settimeout(4 * TIMEOUT_S)
        head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        one.sendall(head)
        answer, deadline = b"", time.monotonic() + 6 * TIMEOUT_S
        one.setblocking(False)
        while time.monotonic() < deadline:
            try:
                one.sendall(chunk)
                if not (part := one.recv(65_536)):
                    break
                answer += part
            except BlockingIOError:
                time.sleep(0.05)
            except OSError:
                break
        assert time.monotonic() < deadline, "the connection stays open"
    assert answer.count(b"HTTP/1.1") == 1 and answer[9:12] == status and b"onnection: close" in answer
