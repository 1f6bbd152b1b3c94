"""From a new project to a voice that plays with the keyboard alone, in each language and size of the page."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FileChooser, Locator, Page, expect

from tests.webui.app import ROOT, running_app
from webui import text
from webui.text.catalog import PAGE_LANGUAGES, speaking

pytestmark = [pytest.mark.browser, pytest.mark.programs]
expect.set_options(timeout=90_000)

VOICE = ROOT / "assets" / "demo_voice"
NUM_CLIPS = 6
SIZES = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
MAX_TABS = 400
SLOW_MS = 180_000
FOCUSED = "e => e === document.activeElement || (e.contains(document.activeElement) && e.matches('[role=tablist]'))"
RING = """() => {
    const style = getComputedStyle(document.activeElement), box = document.activeElement.parentElement
    const seen = s => (s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0) || s.boxShadow !== 'none'
    return seen(style) || seen(getComputedStyle(box))
}"""
"""Whether it can be seen where the focus is."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with running_app(tmp_path) as url:
        yield url


def reach(page: Page, target: Locator) -> None:
    """Go with the Tab key alone to what can be seen to have the focus then."""
    expect(target).to_be_visible()
    for _ in range(MAX_TABS):
        if target.evaluate(FOCUSED):
            assert page.evaluate(RING), "the focus cannot be seen"
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"the Tab key does not lead to {target}")


def press(page: Page, name: str, key: str = "Enter") -> None:
    target = page.locator(name)
    expect(target).to_be_enabled()
    reach(page, target)
    page.keyboard.press(key)


def write(page: Page, name: str, words: str) -> None:
    reach(page, page.locator(f"{name} textarea, {name} input").first)
    page.keyboard.press("Control+a")
    page.keyboard.type(words)


def choose(page: Page, name: str, words: str) -> None:
    """In a list, by its first letters."""
    write(page, name, words)
    page.keyboard.press("Enter")
    expect(page.locator(f"{name} input")).to_have_value(words)


def open_tab(page: Page, name: str) -> None:
    tab = page.get_by_role("tab", name=name, exact=True)
    reach(page, tab)
    page.keyboard.press("Enter")
    expect(tab).to_have_attribute("aria-selected", "true")


def upload(page: Page, files: list[Path]) -> None:
    """The browser's own dialog is the one thing that a test cannot type into."""
    chosen: list[FileChooser] = []
    page.on("filechooser", lambda chooser: chosen.append(chooser))
    for _ in range(10):
        reach(page, page.locator("#upload button").first)
        page.keyboard.press("Enter")
        page.wait_for_timeout(500)
        if chosen:
            break
        # The new project fills the page: a box that is made again meanwhile has lost the focus.
    chosen[0].set_files(files)


@contextmanager
def page_of(browser: Browser, address: str, code: str, size: str) -> Iterator[Page]:
    """A page in a language and a size, on which no script fails."""
    faults: list[str] = []
    context = browser.new_context(viewport=SIZES[size], locale=code)
    page = context.new_page()
    page.set_default_timeout(90_000)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(address)
    with speaking(code):
        yield page
    assert faults == []
    context.close()


@pytest.mark.slow
def test_a_dataset_is_filled_in_by_keys(browser, address):
    """The mouse walks in English on a desk. What happens after Step 1 is for the slow form."""
    with page_of(browser, address, "es", "phone") as page:
        # gradio's own words as well follow the browser.
        expect(page.locator("#upload")).to_contain_text("Coloque el archivo aquí")
        fill_in(page, "quick")
        reach(page, page.locator("#step-1"))
        assert page.locator("#step-1").evaluate(FOCUSED)


@pytest.mark.slow
@pytest.mark.parametrize(("code", "size"), product(PAGE_LANGUAGES, SIZES))
def test_a_voice_is_made_by_keys(browser, address, code, size):
    with page_of(browser, address, code, size) as page:
        fill_in(page, f"{code}-{size}")
        press(page, "#step-1")
        expect(page.locator("#report")).to_contain_text(text.CLIPS_USED, timeout=SLOW_MS)
        train_and_listen(page)


def fill_in(page: Page, project: str) -> None:
    expect(page.get_by_role("tab", name=text.DATA_TAB, exact=True)).to_be_visible()
    expect(page.locator("#base input")).to_have_value(text.BASE_NAMES["starter"])
    choose(page, "#base", text.BASE_NAMES["tiny"])
    write(page, "#new-project", project)
    page.keyboard.press("Enter")
    expect(page.locator("#project input")).to_have_value(project)
    expect(page.locator("#base input")).to_have_value(text.BASE_NAMES["tiny"])
    upload(page, [VOICE / "metadata.csv", *sorted((VOICE / "wavs").glob("*.flac"))[:NUM_CLIPS]])
    expect(page.locator("#uploads")).to_contain_text(f"{NUM_CLIPS} {text.upload_counts(NUM_CLIPS, 0, 1, 0)[0][1]}")


def train_and_listen(page: Page) -> None:
    open_tab(page, text.TRAIN_TAB)
    checkpointing = page.locator("#switch-gradient-checkpointing input")
    reach(page, checkpointing)
    # What is recommended for a new project depends on the machine's memory.
    if not checkpointing.is_checked():
        page.keyboard.press("Space")
    expect(page.locator("#switch-gradient-checkpointing input")).to_be_checked()
    write(page, "#set-num-epochs", "2")
    press(page, "#step-2")
    expect(page.locator("#train-progress .badge")).to_have_text(text.STATES["finished"], timeout=SLOW_MS)
    expect(page.locator("#badge-gradient-checkpointing .badge")).to_have_text(text.ON)
    press(page, "#step-2-5")
    expect(page.locator("#exported")).to_contain_text(text.EXPORTED, timeout=SLOW_MS)

    open_tab(page, text.INFERENCE_TAB)
    expect(page.locator("#speak-model input")).to_have_value(text.model_name("ready", "", "", None))
    write(page, "#speak-text", "Go on.")
    press(page, "#speak")
    expect(page.locator("#take-status .badge").first).to_have_text(text.TAKE_STATES["finished"], timeout=SLOW_MS)
    play = page.locator("#whole .play-pause-button")
    expect(play).to_be_visible()
    reach(page, play)
    open_tab(page, text.SYSTEM_TAB)
    expect(page.locator("#jobs")).to_contain_text(re.compile(text.STATES["finished"]))
