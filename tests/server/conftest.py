"""A server in a process of its own, as users start it, and what tests ask of it."""

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from utils.cli import speech_server

Refusal = Callable[..., str]
RUNNING = "XTTS_STUDIO_TEST_SERVER"
"""Output folder and URL, with a bar between them, of a server that runs already and is to be tested."""
START_S = 120.0
"""Loading torch takes long on a busy machine."""
TEXT = "The early bird catches the worm."


@dataclass
class Server:
    """A running server."""

    process: "subprocess.Popen[str] | None"
    url: str
    output: Path
    said: str
    """What it printed before it listened."""

    def post(self, **fields: Any) -> httpx.Response:
        """Ask for speech."""
        body = {"model": "starter", "voice": "default", "input": TEXT, "seed": 1, "response_format": "pcm"} | fields
        return httpx.post(f"{self.url}/v1/audio/speech", json=body, timeout=120)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, timeout=60)

    def metric(self, name: str) -> float:
        """Sum of a metric's samples."""
        found = re.findall(rf"^xtts_{name}(?:{{.*}})? (\S+)$", self.get("/metrics").text, re.MULTILINE)
        return sum(map(float, found))

    def until(self, what: str, value: float = 0.0, timeout_s: float = 60.0) -> float:
        """A metric once it has a value, or what it is when that takes too long."""
        deadline = time.monotonic() + timeout_s
        while (found := self.metric(what)) != value and time.monotonic() < deadline:
            time.sleep(0.1)
        return found

    def resident(self) -> int:
        """Bytes of memory."""
        return int(self.metric("resident_bytes"))


@contextmanager
def ctrl_c_inherited() -> Iterator[None]:
    """Processes that are started meanwhile react to Ctrl-C as at a prompt.

    A shell script starts its background jobs with SIGINT ignored, and every process below them inherits that. The
    server leaves it as it is: its exit status after Ctrl-C is then 0, as of a process that was not interrupted.
    """
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


def start_server(output: Path, *flags: str, env: dict[str, str] | None = None) -> Server:
    """Start a server on a free port and wait until its model is loaded."""
    command = [sys.executable, "-m", "utils.cli.speech_server", "--output", str(output), "--port", "0", *flags]
    with ctrl_c_inherited():
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
        )
    assert process.stdout is not None
    said, deadline = "", time.monotonic() + START_S
    while "Listening on" not in said:
        ready, _, _ = select.select([process.stdout], [], [], 1.0)
        line = process.stdout.readline() if ready else ""
        assert line or process.poll() is None, said
        assert time.monotonic() < deadline, said
        said += line
    url = re.findall(r"http://\S+", said)[0]
    server = Server(process, url, output, said)
    # One client: each loads all certificates.
    with httpx.Client(verify=False) as client:
        while client.get(f"{url}/health").json()["status"] != "ok":
            assert time.monotonic() < deadline
            time.sleep(0.2)
    return server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of an empty output folder, float32, for all tests that leave it as it is; see also test_cluster.py."""
    if RUNNING in os.environ:
        output, url = os.environ[RUNNING].split("|")
        yield Server(None, url, Path(output), "")
        return
    flags = ("--precision", "fp32", "--max-requests", "80", "--max-upload-mb", "4")
    running = start_server(tmp_path_factory.mktemp("served"), *flags)
    assert running.process
    yield running
    running.process.terminate()
    running.process.communicate(timeout=30)


@pytest.fixture
def refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Refusal:
    """What a server with these flags says that does not start, and ends with status 2."""

    def said(*flags: str) -> str:
        with pytest.raises(SystemExit, match="2"):
            speech_server.main(["--output", str(tmp_path), *flags])
        printed = capsys.readouterr().err
        assert "Traceback" not in printed
        return printed

    return said


def samples(pcm: bytes) -> np.ndarray:
    """16-bit samples as floats in [-1, 1]."""
    return np.frombuffer(pcm, dtype="<i2").astype(np.float32) / 32_768
