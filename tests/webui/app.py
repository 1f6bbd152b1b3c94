"""`python app.py` in a process of its own, as a user starts it."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@contextmanager
def running_app(output: Path, *flags: str, env: dict[str, str] | None = None) -> Iterator[str]:
    """Address of the app over this output folder; it ends with the block."""
    port = free_port()
    command = [sys.executable, "app.py", "--port", str(port), "--output", str(output), *flags]
    log = output / "app.log"
    environment = os.environ | (env or {})
    with log.open("ab") as out, subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out, env=environment) as process:
        try:
            wait_for(f"http://127.0.0.1:{port}/", process, log)
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.terminate()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(address: str, process: subprocess.Popen, log: Path, *, limit_s: float = 600) -> None:
    start = time.monotonic()
    # One client: each loads all certificates, for which the app would have to wait on a busy machine.
    with httpx.Client(verify=False) as client:
        while time.monotonic() < start + limit_s and process.poll() is None:
            try:
                client.get(address)
            except httpx.TransportError:
                time.sleep(0.1)
            else:
                return
    pytest.fail(f"the app did not answer: {log.read_text()}")
