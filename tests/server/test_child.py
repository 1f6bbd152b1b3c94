"""The speech server that the page starts: where it answers, what stands in its way, and that it ends with the page."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from utils.errors import UserError
from utils.server.child import Served, ServerChild, curl
from webui import text
from webui.handlers import server
from webui.security import Access
from webui.studio import Studio

STAND_IN = """
import sys
if "slow" in sys.argv[1]:
    sys.exit(sys.stdin.read())
print("Listening on http://0.0.0.0:8020 with the model maria/ready; Ctrl-C here stops the server.", flush=True)
if "dies" not in sys.argv[1]:
    sys.stdin.read()
sys.exit("no memory")
"""
APP = """
import sys, time
from pathlib import Path
from utils.server.child import ServerChild, curl
child = ServerChild(Path(sys.argv[1]))
served = child.start(host="127.0.0.1", port=0)
print(served.address, child._process.pid, curl(served), flush=True)
time.sleep(600)
"""


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    studio = Studio(output=tmp_path)
    yield studio
    studio.server.stop()


def stand_in(output: Path, kind: str = "answers") -> ServerChild:
    return ServerChild(output, command=[sys.executable, "-S", "-c", STAND_IN, kind])


def test_it_is_shown_after_reloads_and_is_stopped(studio, tmp_path):
    studio.server = stand_in(tmp_path)
    shown = server.start(studio, {"inference.port": 8020})
    assert "http://127.0.0.1:8020" in shown["inference.server"] and shown["inference.curl"]["visible"]
    # Another page, or the same one reloaded, asks with nothing in hand.
    assert server.shown(studio)["inference.server"] == shown["inference.server"]
    with pytest.raises(UserError, match=r"already running at http://127\.0\.0\.1:8020"):
        server.start(studio, {"inference.port": 8021})
    stopped = server.stop(studio, {})
    assert text.SERVER_STATES["off"] in stopped["inference.server"]
    assert stopped["inference.curl"] == {"value": "", "visible": False}
    with pytest.raises(UserError, match="not running"):
        server.stop(studio, {})


def test_a_port_that_is_taken_or_is_none_is_answered(studio):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UserError, match="cannot listen at"):
        server.start(studio, {"inference.port": taken.getsockname()[1]})
    assert studio.server.state == "off"
    for port in (-2, 70_000, None):
        with pytest.raises(UserError, match="port is"):
            server.start(studio, {"inference.port": port})


@pytest.mark.slow
def test_it_speaks_and_ends_with_the_page_that_started_it(tmp_path):
    with subprocess.Popen([sys.executable, "-c", APP, str(tmp_path)], stdout=subprocess.PIPE, text=True) as app:
        assert app.stdout is not None
        address, pid, line = app.stdout.readline().split(" ", 2)
        spoken = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, timeout=120, check=False)
        assert spoken.returncode == 0 and len(body := (tmp_path / "hello.mp3").read_bytes()) > 1_000, body
        app.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while psutil.pid_exists(int(pid)) and psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/health")


def test_on_other_hosts_it_has_a_key_which_the_line_brings(tmp_path, monkeypatch):
    monkeypatch.delenv("XTTS_STUDIO_API_KEY", raising=False)
    child = stand_in(tmp_path)
    served = child.start(host="0.0.0.0", port=8020)
    made = (tmp_path / ".api-key").read_text().strip()
    assert served == Served("http://127.0.0.1:8020", "maria/ready", made)
    assert f'-H "Authorization: Bearer {made}"' in curl(served)
    assert child.stop() and not child.stop() and child.served is None
    # A key that was set beforehand is the administrator's: the page names the variable only.
    monkeypatch.setenv("XTTS_STUDIO_API_KEY", "k" * 20)
    assert child.start(host="127.0.0.1", port=8020).key == "$XTTS_STUDIO_API_KEY"
    assert os.environ["XTTS_STUDIO_API_KEY"] == "k" * 20
    child.stop()


def test_the_page_listens_and_so_does_its_server(studio, monkeypatch):
    studio.access = Access(host="0.0.0.0", auth=(("anna", "long-enough-1"),))
    asked: list[str] = []
    monkeypatch.setattr(studio.server, "start", lambda *, host, port: asked.append(host))
    server.start(studio, {"inference.port": 8020})
    assert asked == ["0.0.0.0"]


def test_one_that_ends_by_itself_is_shown_and_can_be_started_again(studio, tmp_path):
    studio.server = stand_in(tmp_path, "dies")
    studio.server.start(host="127.0.0.1", port=8020)
    deadline = time.monotonic() + 20
    while studio.server.state != "ended":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    shown = server.shown(studio)["inference.server"]
    assert text.SERVER_STATES["ended"] in shown and "no memory" in shown
    studio.server.start(host="127.0.0.1", port=8020)


def test_a_start_is_refused_and_can_be_stopped_while_another_goes_on(studio, tmp_path):
    child = studio.server = stand_in(tmp_path, "slow")
    faults: list[UserError] = []

    def start() -> None:
        try:
            child.start(host="127.0.0.1", port=8020)
        except UserError as error:
            faults.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    deadline = time.monotonic() + 20
    while child._process is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert text.SERVER_STATES["starting"] in server.shown(studio)["inference.server"]
    with pytest.raises(UserError, match="already starting"):
        child.start(host="127.0.0.1", port=8021)
    assert child.stop()
    thread.join(20)
    assert [str(fault.what) for fault in faults] == ["the speech server was stopped before it listened"]
    assert child.state == "off"
