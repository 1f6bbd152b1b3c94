"""The page: it loads without torch, answers a browser, and a taken port is a clear error."""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import psutil
import pytest
from gradio.state_holder import SessionState
from gradio_client import Client
from gradio_client.exceptions import AppError

from benchmarks.webui import make_project
from tests.webui.app import ROOT, running_app
from webui.interface import create_ui
from webui.temporary import PREFIX


def test_the_web_process_does_not_load_torch(address):
    """Whatever it has answered until now."""
    assert httpx.get(address).is_success
    port = httpx.URL(address).port
    (app,) = {one.pid for one in psutil.net_connections("tcp") if one.status == "LISTEN" and one.laddr.port == port}
    assert not [one.path for one in psutil.Process(app).memory_maps() if "libtorch" in one.path]


def test_an_id_of_the_page_is_given_once(laid_out):
    ids = Counter(block.elem_id for block in laid_out.blocks.values() if block.elem_id)
    assert len(ids) > 100 and [name for name, times in ids.items() if times > 1] == []


def test_a_page_that_asks_again_and_again_keeps_nothing_more(tmp_path):
    """gradio would keep each component that it made again, and its description, for as long as the session."""
    page, project = create_ui(tmp_path), make_project(tmp_path)
    session = SessionState(page)
    live = next(fn for fn in page.fns.values() if fn.api_name == "live")
    values = [project.name, *[None] * (len(live.inputs) - 1)]

    def ask() -> tuple[int, int]:
        # Without the number of its last answer the page gets everything again, choices and all.
        asyncio.run(page.process_api(live, list(values), state=session, session_hash="one"))
        return len(session.blocks_config.blocks), len(session.config_values)

    first = ask()
    assert [ask() for _ in range(4)] == [first] * 4
    values[-2] = session.state_data[live.inputs[-1]._id]["answer"]
    assert [ask() for _ in range(4)] == [first] * 4


def test_the_queue_sleeps_while_nothing_waits(laid_out):
    assert laid_out._queue.sleep_when_free >= 0.01


def test_a_poll_has_gradio_describe_no_component_anew(laid_out):
    """gradio describes each output of an event again, whether it changes or not: of dozens that takes 40 ms."""
    polls = [fn for fn in laid_out.fns.values() if fn.fn and (fn.api_name or "").startswith("live")]
    assert [len(fn.outputs) for fn in polls] == [2, 2]


def test_nothing_is_fetched_from_other_hosts(address):
    page = httpx.get(address).text
    assert "fonts.googleapis" not in page
    assert "cdn." not in page


@pytest.fixture(scope="module")
def ask(address) -> Callable[..., Any]:
    """Calls the page's API for a project without a dataset."""
    client = Client(address, verbose=False, ssl_verify=False)
    client.predict(new_project="numbers", language="en", base="tiny", api_name="/project_create")
    return partial(client.predict, project="numbers")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"batch_size": "two"}, "Batch size is &#39;two&#39;; use a whole number"),
        ({"grad_accumulation": 1.5}, "Gradient accumulation is 1.5; use a whole number"),
        ({"seed": True}, "Seed is True; use a whole number"),
        ({"learning_rate": "fast"}, "Learning rate is &#39;fast&#39;; use a number"),
    ],
)
def test_a_script_that_gives_no_number_is_told_which_field(ask, values, message):
    with pytest.raises(AppError, match=message):
        ask(api_name="/train_start", **values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"speed": 9}, "speed is 9.0; use 0.25 to 4"),
        ({"top_p": None, "top_k": 0.5}, "Top-k is 0.5; use a whole number"),
    ],
)
def test_a_script_that_speaks_with_a_wrong_number_is_told_which_field(ask, values, message):
    with pytest.raises(AppError, match=message):
        ask(text="Hello.", model="ready", api_name="/inference_speak", **values)


def test_a_script_may_write_numbers_as_text(ask):
    with pytest.raises(AppError, match="no dataset yet"):
        ask(batch_size="2", seed=" 7 ", api_name="/train_start")


def test_a_taken_port_is_a_clear_error(address):
    port = address.rstrip("/").rsplit(":", 1)[1]
    result = subprocess.run(
        [sys.executable, "app.py", "--port", port], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "--port" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.slow
def test_the_app_starts_behind_proxies_and_leaves_nothing_in_the_temporary_folder(tmp_path):
    (tmp_path / "output").mkdir()
    (tmp_path / "tmp").mkdir()
    nowhere = "http://127.0.0.1:9"
    proxies = {"HTTP_PROXY": nowhere, "http_proxy": nowhere, "NO_PROXY": "", "no_proxy": ""}
    env = proxies | {"TMPDIR": str(tmp_path / "tmp")}
    with running_app(tmp_path / "output", "--root-path", "/studio/", env=env) as page:
        # One proxy does not know this computer, the other has a path for it: scripts, calls and uploads go there.
        assert httpx.get(page + "config").json()["root"] == page + "studio"
        httpx.post(page + "gradio_api/upload", files={"files": ("a.exe", b"x")}).raise_for_status()
        assert list((tmp_path / "tmp").glob(f"{PREFIX}*/*/a.exe"))
    # Windows has no SIGTERM that can be handled.
    assert os.name != "posix" or list((tmp_path / "tmp").glob(f"{PREFIX}*")) == []
