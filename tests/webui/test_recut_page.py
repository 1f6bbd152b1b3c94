"""The edges of a clip and the library of voices in a real browser: seen, moved, undone; made, chosen."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.dataset.recordings import config, make_source
from tests.webui.app import running_app
from tests.webui.browser import running_browser
from utils.dataset.build import prepare
from utils.dataset.storage.report import Report
from utils.project.paths import Project
from utils.speech.voice_library import VoiceLibrary

SLOW_MS = 90_000
pytestmark = [pytest.mark.browser, pytest.mark.programs]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    prepare(config(make_source(tmp_path / "in", 4), tmp_path / "out"))
    return Project(name="voice", output=tmp_path / "out")


@pytest.fixture
def page(project: Project) -> Iterator[Page]:
    with running_app(project.output) as address, running_browser() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(address)
        yield page


@pytest.mark.slow
def test_edges_move_and_come_back_and_a_clip_becomes_a_voice(page, project):
    page.locator("#clips-table [role=gridcell]", has_text="demo-02").first.click(timeout=SLOW_MS)
    drawn = page.locator("#clip-waveform")
    expect(drawn).to_contain_text("Cut at 0.00 to")
    expect(drawn.locator("svg")).to_be_visible()
    page.locator("#edge-start input").fill("0.5")
    page.locator("#edge-end input").fill("2.1")
    page.locator("#clip-save").click()
    # The page follows the clip to what was made of it.
    expect(drawn).to_contain_text("Cut at 0.50 to 2.10 s", timeout=SLOW_MS)
    assert any((clip.start_s, clip.end_s) == (0.5, 2.1) for clip in Report.load(project.report).used)
    page.locator("#edge-end input").fill("0.2")
    page.locator("#clip-save").click()
    expect(page.get_by_test_id("toast-body").last).to_contain_text("is not a part of demo-02")
    page.locator("#clip-restore").click()
    expect(drawn).to_contain_text("Cut at 0.00 to", timeout=SLOW_MS)

    page.get_by_role("tab").nth(2).click()
    page.locator("#voice input").click()
    page.get_by_role("option", name="my voices").click()
    page.locator("#voice-name input, #voice-name textarea").fill("anna")
    page.locator("#voice-clips input").click()
    page.get_by_role("option").first.click()
    page.locator("#voice-make").click()
    expect(page.locator("#library-voice input")).to_have_value("anna")
    assert [voice.name for voice in VoiceLibrary(project.output).all()] == ["anna"]
