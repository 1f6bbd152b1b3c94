"""The page in a real browser, only with mouse and keyboard: from a new project to a voice that is downloaded.

Pictures of each stage: XTTS_STUDIO_SCREENSHOTS=FOLDER make test ARGS="tests/webui/test_browser.py".
"""

import os
import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.sounds import speech
from tests.webui.app import ROOT
from tests.webui.browser import open_folds
from tests.webui.small_project import make_project
from utils.audio.write import write_wav
from utils.options import DATASET_RATE
from webui import text

pytestmark = [pytest.mark.browser, pytest.mark.programs]
expect.set_options(timeout=90_000)

VOICE = ROOT / "assets" / "demo_voice"
NUM_CLIPS = 6
EVIL = "<img src=x onerror=window.hacked=true>"
PLAYED = """(() => {
    window.played = []
    const play = HTMLMediaElement.prototype.play
    HTMLMediaElement.prototype.play = function () {
        if (!this.isWatched) this.addEventListener('ended', () => window.played.push(this.duration))
        this.isWatched = true
        return play.call(this)
    }
})()"""
"""Keep the seconds of every sound that was played to its end: the page's players are not in the document."""
LENGTH = """async address => {
    const bytes = await (await fetch(address)).arrayBuffer()
    return (await new AudioContext().decodeAudioData(bytes)).duration
}"""
"""Seconds of a recording that the page offers."""
TWO_CURVES = """() => [...document.querySelectorAll('#loss-plot path.curve')]
    .filter(line => (line.getAttribute('d') || '').includes('L')).length >= 2"""
"""The loss of training and of evaluation are both drawn; the legend alone names both before they are."""
SLOW_MS = 180_000
"""A step of the job on two busy cores, the start of its process included."""


@pytest.fixture(scope="module")
def faults() -> list[str]:
    """Errors of the page's own scripts."""
    return []


@pytest.fixture(scope="module")
def page(browser: Browser, own_address: str, faults: list[str]) -> Page:
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(90_000)
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.add_init_script(PLAYED)
    opened.goto(own_address)
    return opened


def shot(page: Page, name: str) -> None:
    """A picture, when they are asked for."""
    folder = os.environ.get("XTTS_STUDIO_SCREENSHOTS")
    if folder:
        page.wait_for_timeout(1_500)
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def open_tab(page: Page, name: str) -> None:
    """Where the tabs do not fit, the rest of them is behind a button."""
    tab = page.get_by_role("tab", name=name).locator("visible=true")
    page.wait_for_selector("[role=tab]")
    if tab.count() == 0:
        page.locator(".overflow-menu > button").click()
        page.locator(".overflow-dropdown button", has_text=name).click()
    else:
        tab.first.click()


def test_a_voice_is_made_by_mouse(page, faults):
    """From recordings of which one has a name and a transcript that a careless page would run as HTML."""
    create_project(page)
    make_dataset(page)
    fix_clip(page)
    train(page)
    export(page)
    listen(page)
    assert faults == []
    assert_harmless(page)


@pytest.mark.slow
def test_a_run_is_watched_stopped_and_resumed_by_mouse(page, faults, own_output, own_address):
    project = make_project(own_output, "watched")
    for number, sound in enumerate(sorted((project.dataset / "wavs").iterdir())):
        write_wav(sound, speech(2.0, seed=number), DATASET_RATE)
    page.goto(f"{own_address}?project=watched&tab=train")
    expect(page.locator("#project input")).to_have_value("watched")
    watch(page)
    refresh_in_mid_run(page)
    stop_and_resume(page)
    assert faults == []


def create_project(page: Page) -> None:
    expect(page.locator("#activity")).to_contain_text("Enter a name under New project")
    # Files first, as people do: they wait until there is a project to take them.
    page.locator("#upload input[type=file]").set_input_files(str(VOICE / "metadata.csv"))
    expect(page.get_by_text(text.UPLOAD_WAITS)).to_be_visible()
    page.locator("#new-project textarea, #new-project input").fill("maria")
    page.locator("#new-project").get_by_role("button").click()
    expect(page.locator("#project input")).to_have_value("maria")
    expect(page.locator("#uploads")).to_contain_text("1 table")
    page.locator("#base input").click()
    page.get_by_role("option", name=text.BASE_NAMES["tiny"]).click()
    expect(page.locator("#base input")).to_have_value(text.BASE_NAMES["tiny"])


def make_dataset(page: Page) -> None:
    clips = {path.name: path.read_bytes() for path in sorted((VOICE / "wavs").glob("*.flac"))[: NUM_CLIPS + 1]}
    evil = {f"{EVIL}.flac": clips.popitem()[1], f"{EVIL}.txt": EVIL.encode()}
    files = [{"name": name, "mimeType": "", "buffer": content} for name, content in (clips | evil).items()]
    page.locator("#upload input[type=file]").set_input_files(files)
    expect(page.locator("#uploads")).to_contain_text(f"{NUM_CLIPS + 1} recordings")
    page.locator("#step-1").click()
    expect(page.locator("#report")).to_contain_text(f"{NUM_CLIPS}clips used", timeout=SLOW_MS)
    expect(page.locator("#clips-table")).to_contain_text("missing file")
    expect(page.locator("#clips-table")).to_contain_text("onerror")
    shot(page, "data")


def fix_clip(page: Page) -> None:
    """Listen to a clip and correct its transcript."""
    # The end of preparing fills the table once more, which closes an open clip.
    expect(page.locator("#cancel-data")).to_be_hidden(timeout=SLOW_MS)
    choose_clip(page)
    expect(page.locator("#clip-box")).to_be_in_viewport()
    page.locator("#clip-sound").get_by_role("button", name="Play", exact=True).click()
    page.wait_for_function("window.played.length > 0")
    words = page.locator("#clip-text textarea")
    fixed = f"{words.input_value()} Indeed. {EVIL}"
    words.fill(fixed)
    page.locator("#clip-save").click()
    expect(page.locator("#clips-table")).to_contain_text(fixed)
    assert_harmless(page)


def train(page: Page) -> None:
    open_tab(page, text.TRAIN_TAB)
    expect(page.locator("#badge-sdpa")).to_contain_text(text.NOT_KNOWN)
    page.locator("#switch-gradient-checkpointing input").check()
    # On again off: processors without units for bf16 take a minute for what fp32 does in seconds.
    page.locator("#switch-mixed-precision input").check()
    page.locator("#switch-mixed-precision input").uncheck()
    expect(page.locator("#switch-sdpa input")).to_be_checked()
    page.locator("#set-num-epochs textarea, #set-num-epochs input").fill("3")
    page.locator("#step-2").click()
    # The badges are filled by the run's proofs, in words about what was seen.
    expect(page.locator("#badge-gradient-checkpointing .badge")).to_have_text(text.ON, timeout=SLOW_MS)
    expect(page.locator("#badge-sdpa .badge")).to_have_text(text.ON)
    expect(page.locator("#train-progress .badge")).to_have_text("finished", timeout=SLOW_MS)
    page.wait_for_function(TWO_CURVES, timeout=SLOW_MS)
    shot(page, "training")


def watch(page: Page) -> None:
    """A run that goes on until it is stopped."""
    page.locator("#set-num-epochs textarea, #set-num-epochs input").fill("400")
    idle = page.locator("#gpu-panel").inner_text()
    assert "GB" in idle and text.USED_BY_RUN not in idle
    page.locator("#step-2").click()
    expect(page.locator("#train-progress")).to_contain_text("step", timeout=SLOW_MS)
    first = step_shown(page)
    expect(page.locator("#loss-plot")).to_be_visible(timeout=SLOW_MS)
    assert wait_for_more(page, first)
    # The plot was drawn when there was one curve only.
    page.wait_for_function(TWO_CURVES, timeout=SLOW_MS)
    # What this run uses was not in the panel before.
    expect(page.locator("#gpu-panel")).to_contain_text(text.USED_BY_RUN, timeout=SLOW_MS)


def step_shown(page: Page) -> int:
    """The step that the progress names."""
    found = re.search(r"step ([\d,]+) of", page.locator("#train-progress").inner_text())
    return int(found.group(1).replace(",", "")) if found else 0


def wait_for_more(page: Page, step: int) -> bool:
    """Whether a later step is shown before long."""
    deadline = time.monotonic() + SLOW_MS / 1000
    while time.monotonic() < deadline:
        if step_shown(page) > step:
            return True
        page.wait_for_timeout(300)
    return False


def refresh_in_mid_run(page: Page) -> None:
    before = step_shown(page)
    page.reload()
    expect(page.locator("#project input")).to_have_value("watched")
    open_tab(page, text.TRAIN_TAB)
    assert wait_for_more(page, before)


def stop_and_resume(page: Page) -> None:
    page.locator("#stop").click()
    expect(page.locator("#train-progress .badge")).to_have_text("stopped", timeout=SLOW_MS)
    at = step_shown(page)
    page.locator("#resume").click()
    assert wait_for_more(page, at)
    page.locator("#stop").click()
    expect(page.locator("#train-progress .badge")).to_have_text("stopped", timeout=SLOW_MS)


def export(page: Page) -> None:
    page.get_by_label("last", exact=True).check()
    page.locator("#step-2-5").click()
    expect(page.locator("#exported")).to_contain_text(text.EXPORTED, timeout=SLOW_MS)
    open_tab(page, text.SYSTEM_TAB)
    expect(page.locator("#jobs")).to_contain_text("finished", timeout=SLOW_MS)
    shot(page, "system")


def listen(page: Page) -> None:
    open_tab(page, text.INFERENCE_TAB)
    # The model that was just exported is the first in the list.
    expect(page.locator("#speak-model input")).to_have_value(text.model_name("ready", "", "", None))
    page.locator("#speak-text textarea").fill(f"The early bird catches the worm. {EVIL} Go on.")
    page.locator("#speak").click()
    expect(page.locator("#take-status .badge").first).to_have_text(text.TAKE_STATES["finished"], timeout=SLOW_MS)
    expect(page.locator("#take-status")).to_contain_text("<img")
    play = page.locator("#whole").get_by_role("button", name="Play", exact=True)
    expect(play).to_be_visible()
    # So small a base says little: what counts is that all of it is played, not the whole seconds that the player shows.
    length = page.evaluate(LENGTH, page.locator("#whole a[download]").get_attribute("href"))
    assert length > 0.1
    play.click()
    # Its sentences play by themselves, too: only the whole recording has this length.
    page.wait_for_function("length => window.played.some(played => Math.abs(played - length) < 0.02)", arg=length)
    with page.expect_download() as download:
        page.locator("#whole a[download]").click()
    assert download.value.path().stat().st_size > 1_000
    shot(page, "inference")


@pytest.mark.slow
def test_html_typed_into_any_field_stays_text(page, own_output, own_address):
    """In every text field that can be reached, whatever is pressed then, and in the messages that quote it."""
    make_project(own_output, "anna")
    page.goto(f"{own_address}?project=anna")
    expect(page.locator("#project input")).to_have_value("anna")
    for name, button in (
        (text.DATA_TAB, "#step-1"),
        (text.TRAIN_TAB, "#step-2"),
        (text.INFERENCE_TAB, "#speak"),
        (text.SYSTEM_TAB, None),
    ):
        open_tab(page, name)
        open_folds(page)
        fields = "textarea:visible:enabled, input[type=text]:visible:enabled"
        for field in page.locator(fields).all():
            field.fill(EVIL)
            field.press("Tab")
        if button:
            page.locator(button).click()
            expect(page.locator(".toast-body").last).to_contain_text("<img")
    page.locator("#manage-project").click()
    page.locator("#new-project textarea, #new-project input").fill(EVIL)
    page.locator("#new-project").get_by_role("button").click()
    page.wait_for_timeout(1_000)
    assert_harmless(page)


def choose_clip(page: Page) -> None:
    """Open the editor of the first clip in the table."""
    deadline = time.monotonic() + 30
    while not page.locator("#clip-box").is_visible():
        assert time.monotonic() < deadline
        # A click on a row that the table is drawing again chooses nothing.
        page.locator("#clips-table [role=gridcell]").first.click()
        page.wait_for_timeout(1000)


def assert_harmless(page: Page) -> None:
    assert page.evaluate("window.hacked") is None
    assert page.locator("img[src=x]").count() == 0
