"""What the page does otherwise than gradio, so that it opens and answers quickly."""

import asyncio
from pathlib import Path

import gradio as gr
import pytest

from webui.interface import create_ui
from webui.page import Page


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
