"""The server as a process: how it starts, refuses to start, and ends."""

import re
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest

from tests.server.conftest import TEXT, start_server


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 0), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_others_need_a_key_that_is_printed_once_and_a_signal_ends_requests_with_an_error_and_the_process_soon(
    tmp_path, number, status
):
    server = start_server(tmp_path, "--host", "0.0.0.0")
    (key,) = re.findall(r"New API key, printed only this once: (\S+)", server.said)
    url = server.url.replace("0.0.0.0", "127.0.0.1")
    assert httpx.get(f"{url}/v1/models").status_code == 401
    body = {"model": "starter", "input": f"{TEXT} " * 200, "response_format": "pcm"}
    own = {"Authorization": f"Bearer {key}"}
    with httpx.stream("POST", f"{url}/v1/audio/speech", json=body, headers=own, timeout=60) as response:
        assert response.status_code == 200
        parts = response.iter_bytes()
        assert next(parts)
        asked = time.monotonic()
        server.process.send_signal(number)
        with pytest.raises(httpx.RemoteProtocolError):
            list(parts)
    server.process.communicate(timeout=30)
    assert time.monotonic() - asked < 15
    assert server.process.returncode == status


def test_torch_is_loaded_after_the_port_is_open():
    code = "import sys, utils.cli.speech_server; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_cannot_be_served_is_told(refusal):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "cannot listen at" in refusal("--port", port)
        assert "cannot listen at" in refusal("--port", "0", "--wyoming-port", port)
    assert "'missing/ready' does not exist" in refusal("--model", "missing/ready", "--port", "0")
    assert "slots is 0" in refusal("--slots", "0")
    assert "an API key is set" in refusal("--wyoming-port", "0", "--api-key", "k" * 16, "--port", "0")
