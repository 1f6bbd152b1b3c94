"""What the page does otherwise than gradio, so that it opens and answers quickly."""

import asyncio
import subprocess
import sys
from pathlib import Path

import gradio as gr
import pytest
from gradio.routes import App

from webui.interface import create_ui
from webui.page import Page

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def page() -> tuple[Page, list[gr.Textbox]]:
    with Page() as page:
        boxes = [gr.Textbox(f"{number}") for number in range(3)]
        page.load(lambda: None, outputs=boxes)
    return page, boxes


def answer(page: Page, predictions: object) -> list[object]:
    return asyncio.run(page.postprocess_data(next(iter(page.fns.values())), predictions, None))


def test_only_what_changes_is_built_anew(page, monkeypatch: pytest.MonkeyPatch) -> None:
    page, boxes = page
    built: list[object] = []
    original = gr.Textbox.__init__
    monkeypatch.setattr(gr.Textbox, "__init__", lambda self, *a, **k: built.append(self) or original(self, *a, **k))
    skipped = gr.skip()
    assert answer(page, {boxes[1]: "new"}) == [skipped, "new", skipped]
    assert answer(page, {boxes[0]: skipped}) == [skipped] * 3
    assert not built
    changed = answer(page, {boxes[2]: gr.update(value="x", visible=False)})
    assert changed[:2] == [skipped, skipped] and changed[2]["value"] == "x" and changed[2]["visible"] is False
    assert len(built) == 1


def test_other_answers_are_gradios_own(page) -> None:
    page, boxes = page
    assert answer(page, ["a", gr.skip(), "c"])[::2] == ["a", "c"]
    assert answer(page, {boxes[0]: "a", boxes[1]: "b", boxes[2]: "c"}) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="not specified as output"), gr.Blocks():
        answer(page, {gr.Textbox(): "a"})


def test_the_queue_sleeps_while_nothing_waits(tmp_path: Path) -> None:
    assert create_ui(tmp_path)._queue.sleep_when_free >= 0.01


def test_no_server_is_made_before_the_one_that_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    original = App.create_app
    monkeypatch.setattr(App, "create_app", staticmethod(lambda *a, **k: made.append(a) or original(*a, **k)))
    page = create_ui(tmp_path)
    assert made == [] and page.config["dependencies"] and page._queue.max_size
    page.launch(prevent_thread_lock=True, quiet=True, _frontend=False)
    page.close()
    assert len(made) == 1


def test_gradio_is_loaded_without_the_stubs_of_editors() -> None:
    code = (
        "import gc, inspect, pathlib\n"
        "read, before, seen = pathlib.Path.read_text, inspect.getfile, []\n"
        "pathlib.Path.read_text = lambda self, *a, **k: seen.append(self) or read(self, *a, **k)\n"
        "from webui.quick_start import load_interface\n"
        "load_interface()\n"
        "assert not [path for path in seen if 'components' in path.parts]\n"
        "assert inspect.getfile is before\n"
        "assert gc.isenabled() and gc.get_freeze_count() > 100_000\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
