"""Two replicas on a Ray cluster are one server: real clients see no difference."""

import importlib.util
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.server.conftest import RUNNING
from utils.errors import UserError

CLIENTS = ("tests/server/test_openai_client.py", "tests/server/test_sillytavern.py")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: requirements-scale.txt")
def test_clients_see_no_difference(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.server.cluster", str(tmp_path), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as cluster:
        try:
            assert cluster.stdout is not None
            assert any("Listening on" in line for line in cluster.stdout)
            url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 180
            # Requests go to either replica; a number of answers in a row has seen both.
            ready = 0
            while ready < 10:
                assert time.monotonic() < deadline
                ready = ready + 1 if httpx.get(f"{url}/health", timeout=60).json()["status"] == "ok" else 0
                time.sleep(0.2)
            tests = [sys.executable, "-m", "pytest", "-q", *CLIENTS, "-m", "not slow"]
            done = subprocess.run(
                tests, env={**os.environ, RUNNING: f"{tmp_path}|{url}"}, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout[-3000:]
        finally:
            cluster.terminate()


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: requirements-scale.txt")
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replicas": "0"}, "replicas is 0"),
        ({"replicas": "3", "max_replicas": "2"}, "max_replicas is 2"),
        ({"gpus": "-1"}, "gpus is -1"),
        ({"replica": "2"}, "replica"),
        ({"host": "0.0.0.0"}, "needs an API key"),
    ],
)
def test_what_cannot_be_started_is_refused_before_a_replica_starts(values, message, tmp_path: Path) -> None:
    from utils.server.cluster import speech

    with pytest.raises(UserError, match=message):
        speech({"output": str(tmp_path), **values})
