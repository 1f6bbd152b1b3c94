"""The server as a process: how it starts, refuses to start, and ends."""

import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.server.conftest import TEXT, start_server


def run(*flags: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "utils.cli.speech_server", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 0), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_a_signal_ends_requests_with_an_error_and_the_process_soon(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    server = start_server(tmp_path)
    body = {"model": "starter", "input": f"{TEXT} " * 200, "response_format": "pcm"}
    with httpx.stream("POST", f"{server.url}/v1/audio/speech", json=body, timeout=60) as response:
        parts = response.iter_bytes()
        assert next(parts)
        asked = time.monotonic()
        server.process.send_signal(number)
        with pytest.raises(httpx.RemoteProtocolError):
            list(parts)
    server.process.communicate(timeout=30)
    assert time.monotonic() - asked < 15
    assert server.process.returncode == status


def test_torch_is_loaded_after_the_port_is_open() -> None:
    code = "import sys, utils.cli.speech_server; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_others_need_a_key_that_is_printed_once(tmp_path: Path) -> None:
    server = start_server(tmp_path, "--host", "0.0.0.0")
    try:
        (key,) = re.findall(r"New API key, printed only this once: (\S+)", server.said)
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(f"{url}/v1/models").status_code == 401
        assert httpx.get(f"{url}/v1/models", headers={"Authorization": f"Bearer {key}"}).status_code == 200
    finally:
        server.process.kill()
        server.process.communicate()


def test_what_cannot_be_served_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        used = run("--output", str(tmp_path), "--port", str(taken.getsockname()[1]))
    assert used.returncode == 2 and "cannot listen at" in used.stderr and "Traceback" not in used.stderr
    missing = run("--output", str(tmp_path), "--model", "missing/ready", "--port", "0")
    assert missing.returncode == 2 and "'missing/ready' does not exist" in missing.stderr
    wrong = run("--output", str(tmp_path), "--slots", "0")
    assert wrong.returncode == 2 and "slots is 0" in wrong.stderr
