"""The page: it loads without torch, lists projects from their files, and answers a browser and a script."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import httpx
import pytest
from gradio_client import Client

from utils.errors import UserError
from webui import text
from webui.events import wire
from webui.handlers.projects import list_projects
from webui.registry import Registry

ROOT = Path(__file__).resolve().parent.parent.parent
HEAVY = ("torch", "torchaudio", "transformers", "accelerate", "TTS")


def make_project(output: Path, name: str, *, used: int, dropped: int, runs: int) -> Path:
    folder = output / name
    (folder / "dataset").mkdir(parents=True)
    clips = [{"clip": f"{n}.wav", "status": "used"} for n in range(used)]
    clips += [{"clip": "bad.wav", "status": "dropped", "reason": "too short"}] * dropped
    (folder / "dataset" / "report.json").write_text(json.dumps({"clips": clips}), encoding="utf-8")
    (folder / "dataset" / "lang.txt").write_text("en\n", encoding="utf-8")
    for run in range(runs):
        (folder / "runs" / f"run-{run}").mkdir(parents=True)
    return folder


def test_the_web_process_does_not_load_torch():
    code = f"import sys, app, webui.interface; print([m for m in {HEAVY} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_projects_are_listed_with_their_clips_and_runs(tmp_path):
    make_project(tmp_path, "anna", used=3, dropped=1, runs=2)
    ready = make_project(tmp_path, "bert", used=1, dropped=0, runs=0) / "ready"
    ready.mkdir()
    (ready / "model.pth").touch()
    updates = list_projects(tmp_path)
    assert updates["projects.table"] == [["anna", "en", 3, 1, 2, text.NO], ["bert", "en", 1, 0, 0, text.YES]]
    assert updates["projects.status"] == text.projects_found(2)


def test_folders_that_are_no_projects_are_left_out(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "a name with spaces" / "dataset").mkdir(parents=True)
    (tmp_path / "file.txt").touch()
    assert list_projects(tmp_path)["projects.table"] == []


@pytest.mark.parametrize("report", ["{", "[]", '{"clips": [1]}', '{"clips": null}', "\udcff"], ids=repr)
def test_a_broken_report_is_shown_as_unreadable(tmp_path, report):
    folder = make_project(tmp_path, "anna", used=1, dropped=0, runs=1)
    (folder / "dataset" / "report.json").write_bytes(report.encode("utf-8", "surrogateescape"))
    assert list_projects(tmp_path)["projects.table"] == [
        ["anna", "en", text.UNREADABLE, text.UNREADABLE, 1, text.NO],
    ]


def test_a_missing_output_folder_holds_no_projects(tmp_path):
    updates = list_projects(tmp_path / "none")
    assert updates == {"projects.table": [], "projects.status": text.projects_found(0)}


def test_an_output_folder_that_is_a_file_is_refused(tmp_path):
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(UserError, match="output folder cannot be read"):
        list_projects(path)


def test_a_component_id_is_given_once():
    registry = Registry()
    registry.add("tab", {"button": gr.Button()})
    with pytest.raises(ValueError, match=r"tab\.button"):
        registry.add("tab", {"button": gr.Button()})


def test_a_fault_reaches_the_page_as_escaped_text():
    def fail() -> dict:
        raise UserError(what="no project <img src=x>", fix="choose another")

    registry = Registry()
    with gr.Blocks(analytics_enabled=False) as page:
        registry.add("tab", {"button": gr.Button(), "label": gr.Markdown()})
        wire(registry, [registry["tab.button"].click], fail, outputs=["tab.label"], api_name="fail")
    (dependency,) = page.fns.values()
    with pytest.raises(gr.Error, match="no project &lt;img src=x&gt;"):
        dependency.fn()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of `python app.py`, started as a user would, over an output folder with one project."""
    output = tmp_path_factory.mktemp("output")
    make_project(output, "anna", used=3, dropped=1, runs=2)
    port = free_port()
    command = [sys.executable, "app.py", "--port", str(port), "--output", str(output)]
    log = output / "app.log"
    with log.open("wb") as out, subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out) as process:
        try:
            wait_for(f"http://127.0.0.1:{port}/", process, log)
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.terminate()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(address: str, process: subprocess.Popen, log: Path, *, limit_s: float = 60) -> None:
    start = time.monotonic()
    while time.monotonic() < start + limit_s and process.poll() is None:
        try:
            httpx.get(address)
        except httpx.TransportError:
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"the app did not answer: {log.read_text()}")


def test_a_browser_gets_the_page(app):
    answer = httpx.get(app)
    assert answer.status_code == 200
    assert text.TITLE in answer.text
    assert all(label in answer.text for label in (text.PROJECTS_TAB, text.COMMANDS_TAB))


def test_a_script_gets_the_projects(app):
    status, table = Client(app, verbose=False).predict(api_name="/projects_list")
    assert status == text.projects_found(1)
    assert table["headers"] == text.PROJECTS_COLUMNS
    assert table["data"] == [["anna", "en", 3, 1, 2, text.NO]]


def test_a_taken_port_is_a_clear_error(app):
    port = app.rstrip("/").rsplit(":", 1)[1]
    result = subprocess.run(
        [sys.executable, "app.py", "--port", port], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "--port" in result.stderr
    assert "Traceback" not in result.stderr
