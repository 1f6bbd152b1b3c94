"""Many clients at once, and many requests one after the other: nothing hangs, and memory stays."""

import json
import logging
import random
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from statistics import median
from urllib.parse import urlsplit

import httpx
import pytest

from tests.server.conftest import TEXT, Server, start_server

CLIENTS = 50
REQUESTS, BROKEN_OFF, HOSTILE, PARTS = 1_000, 50, 20, 5
WORKERS = 8
GROWTH = 0.0025
"""Of the memory, from one part of the requests to the next: 11 KB a request."""
WORDS = ("Yes.", "No, thank you.", "Still waters run deep.", "Good morning to you.")
NONSENSE = (
    b"",
    b"{",
    b'{"input": 1}',
    b"\xff" * 100,
    json.dumps({"model": "starter", "input": "x" * 200_000}).encode(),
)

log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of its own: what others asked must not count."""
    running = start_server(tmp_path_factory.mktemp("busy"), "--precision", "fp32")
    yield running
    running.process.terminate()
    running.process.communicate(timeout=30)


def stream(server: Server, text: str, **fields: object) -> tuple[float, bytes]:
    """Seconds to the first sound, and all of it."""
    body = {"model": "starter", "input": text, "response_format": "pcm", **fields}
    begun, first, parts = time.monotonic(), 0.0, []
    with httpx.stream("POST", f"{server.url}/v1/audio/speech", json=body, timeout=600) as response:
        assert response.status_code == 200, response.read()
        for part in response.iter_bytes():
            first = first or time.monotonic() - begun
            parts.append(part)
    return first, b"".join(parts)


def break_off(server: Server) -> None:
    """Ask for long speech and go away at its first sound, or before."""
    address = urlsplit(server.url)
    body = json.dumps({"model": "starter", "input": f"{TEXT} " * 100, "response_format": "pcm"}).encode()
    with socket.create_connection((address.hostname, address.port)) as raw:
        raw.sendall(
            b"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        if random.random() < 0.5:
            raw.recv(4096)


def offend(server: Server) -> None:
    """Send what no client should."""
    answer = httpx.post(f"{server.url}/v1/audio/speech", content=random.choice(NONSENSE), timeout=60)
    assert 400 <= answer.status_code < 500


@pytest.mark.slow
def test_fifty_clients_stream_at_once_and_each_hears_its_own(busy):
    alone = [stream(busy, text, seed=1)[1] for text in WORDS]
    with ThreadPoolExecutor(CLIENTS) as pool:
        texts = [WORDS[number % len(WORDS)] for number in range(CLIENTS)]
        received = list(pool.map(lambda text: stream(busy, text, seed=1), texts))
    # The same codes: the same length.
    assert [len(sound) for _, sound in received] == [len(alone[number % len(WORDS)]) for number in range(CLIENTS)]
    waits = sorted(first for first, _ in received)
    log.info(f"first sound: median {waits[CLIENTS // 2]:.2f} s, last {waits[-1]:.2f} s")
    assert busy.metric("requests_live") == 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_thousand_requests_leave_no_memory_behind(busy):
    random.seed(0)
    kinds = ["speak"] * (REQUESTS - BROKEN_OFF - HOSTILE) + ["break"] * BROKEN_OFF + ["offend"] * HOSTILE
    random.shuffle(kinds)

    def one(kind: str) -> None:
        if kind == "break":
            break_off(busy)
        elif kind == "offend":
            offend(busy)
        else:
            assert len(stream(busy, random.choice(WORDS))[1]) > 1_000

    with ThreadPoolExecutor(WORKERS) as pool:
        memory = []
        for part in range(PARTS):
            list(pool.map(one, kinds[part::PARTS]))
            assert busy.until("requests_live") == 0
            memory.append(busy.resident())
    log.info("memory: %s MB", ", ".join(f"{size / 1e6:.1f}" for size in memory))
    # What leaks grows in every part. Pools of threads and of memory grow when more is spoken at once than ever before.
    assert median(after - before for before, after in pairwise(memory)) < GROWTH * memory[0]
