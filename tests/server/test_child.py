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
import sys, time
if "slow" in sys.argv[1]:
    time.sleep(30)
print("Listening on http://0.0.0.0:8020 with the model maria/ready; Ctrl-C here stops the server.", flush=True)
if "dies" not in sys.argv[1]:
    sys.stdin.read()
sys.exit("no memory")
"""
APP = """
import sys, time
from pathlib import Path
from utils.server.child import ServerChild
child = ServerChild(Path(sys.argv[1]))
print(child.start(host="127.0.0.1", port=0).address, child._process.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    studio = Studio(output=tmp_path)
    yield studio
    studio.server.stop()


def stand_in(output: Path, kind: str = "answers") -> ServerChild:
    return ServerChild(output, command=[sys.executable, "-S", "-c", STAND_IN, kind])


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def test_it_speaks_survives_reloads_and_is_stopped(studio: Studio, tmp_path: Path) -> None:
    port = free_port()
    shown = server.start(studio, {"inference.port": port})
    address = f"http://127.0.0.1:{port}"
    assert address in shown["inference.server"] and httpx.get(f"{address}/health").status_code == 200
    line = shown["inference.curl"]["value"]
    spoken = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    assert spoken.returncode == 0 and len(body := (tmp_path / "hello.mp3").read_bytes()) > 1_000, body
    # Another page, or the same one reloaded, asks with nothing in hand.
    assert server.shown(studio)["inference.server"] == shown["inference.server"]
    with pytest.raises(UserError, match=f"already running at {address}"):
        server.start(studio, {"inference.port": port + 1})
    stopped = server.stop(studio, {})
    assert text.SERVER_STATES["off"] in stopped["inference.server"]
    assert stopped["inference.curl"] == {"value": "", "visible": False}
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/health")
    with pytest.raises(UserError, match="not running"):
        server.stop(studio, {})


def test_a_port_that_is_taken_or_is_none_is_answered(studio: Studio) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UserError, match="cannot listen at"):
        server.start(studio, {"inference.port": taken.getsockname()[1]})
    assert studio.server.state == "off"
    for port in (-2, 70_000, None):
        with pytest.raises(UserError, match="port is"):
            server.start(studio, {"inference.port": port})


def test_it_ends_with_the_page_that_started_it(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", APP, str(tmp_path)], stdout=subprocess.PIPE, text=True) as app:
        assert app.stdout is not None
        address, pid = app.stdout.readline().split()
        assert httpx.get(f"{address}/health").status_code == 200
        app.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while psutil.pid_exists(int(pid)) and psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_on_other_hosts_it_has_a_key_which_the_line_brings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_page_listens_and_so_does_its_server(studio: Studio, monkeypatch: pytest.MonkeyPatch) -> None:
    studio.access = Access(host="0.0.0.0", auth=(("anna", "long-enough-1"),))
    asked: list[str] = []
    monkeypatch.setattr(studio.server, "start", lambda *, host, port: asked.append(host))
    server.start(studio, {"inference.port": 8020})
    assert asked == ["0.0.0.0"]


def test_one_that_ends_by_itself_is_shown_and_can_be_started_again(studio: Studio, tmp_path: Path) -> None:
    studio.server = stand_in(tmp_path, "dies")
    studio.server.start(host="127.0.0.1", port=8020)
    deadline = time.monotonic() + 20
    while studio.server.state != "ended":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    shown = server.shown(studio)["inference.server"]
    assert text.SERVER_STATES["ended"] in shown and "no memory" in shown
    studio.server.start(host="127.0.0.1", port=8020)


def test_a_start_is_refused_and_can_be_stopped_while_another_goes_on(studio: Studio, tmp_path: Path) -> None:
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
