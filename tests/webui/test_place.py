"""The page in a browser over a project that is there: its address, its names, and a console without complaints."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import axe_playwright_python
import pytest
import torch
from playwright.sync_api import Browser, Page, expect

from tests.webui.app import running_app
from tests.webui.small_project import make_project
from utils.audio.write import write_wav
from utils.options import DATASET_RATE, SpeechSettings
from utils.project.paths import Project
from utils.speech.takes import new_take
from webui import text
from webui.text.catalog import speaking

pytestmark = [pytest.mark.browser, pytest.mark.programs]
expect.set_options(timeout=90_000)

SIZES = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
IN_VIEW = """() => [...document.querySelectorAll('button.primary')].filter(e => e.offsetParent).filter(e => {
    const box = e.getBoundingClientRect()
    const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)
    return box.top >= 0 && box.bottom <= innerHeight && (top === e || e.contains(top))
}).length"""
"""Primary buttons that can be clicked without scrolling."""
NAMES = "() => [...document.querySelectorAll('[aria-label]')].map(e => e.getAttribute('aria-label'))"
AXE = """async () => {
    const found = await axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] })
    return found.violations.map(({ id, impact, nodes }) => ({ id, impact, nodes: nodes.map(node => node.html) }))
}"""
OPAQUE = """() => [...document.querySelectorAll('.pending')].filter(e => e.offsetParent)
    .every(e => getComputedStyle(e).opacity === '1')"""
"""What waits for an answer is as readable as everything else; gradio alone would fade it to a fifth."""
SHIFTS = """window.shift = 0
new PerformanceObserver(list => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value
}).observe({ type: 'layout-shift', buffered: true })"""
MAX_SHIFT = 0.05
"""How far what is seen moves while the page is filled; 0.1 to 0.9 without the page's care for it."""
FILLED = [("data", "phone"), ("train", "desk")]
"""Tabs that the quick tests fill, with the size of the screen."""
KEYS = "() => [...document.querySelectorAll('[role=status]')].map(e => e.textContent).filter(t => /^common\\./.test(t))"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    output = tmp_path_factory.mktemp("output")
    exported = make_project(output, "clara")
    (exported.runs / "one" / "checkpoints" / "step-1").mkdir(parents=True)
    exported.ready.mkdir()
    (exported.ready / "model.pth").write_bytes(b"weights")
    for name in ("anna", "maria"):
        for sound in (make_project(output, name).dataset / "wavs").iterdir():
            write_wav(sound, torch.zeros(1, DATASET_RATE), DATASET_RATE)
    project = Project(name="maria", output=output)
    take = new_take(project, ["One."], model="base/tiny", settings=SpeechSettings())
    write_wav(take.folder / "0001.wav", torch.zeros(1, DATASET_RATE), DATASET_RATE)
    take.changed(lines=(replace(take.lines[0], state="finished", file="0001.wav"),), state="finished").save()
    with running_app(output) as url:
        yield url


@pytest.fixture(autouse=True)
def _no_page_left(browser: Browser) -> Iterator[None]:
    """A test that fails leaves no page that keeps asking the server beside the next test."""
    yield
    for context in browser.contexts:
        context.close()


def opened(browser: Browser, address: str, size: str, said: list[str]) -> Page:
    page = browser.new_page(viewport=SIZES[size])
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("response", lambda answer: said.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None)
    page.goto(address)
    return page


def tab(page: Page, name: str):
    return page.get_by_role("tab", name=name, exact=True)


@pytest.mark.parametrize("size", SIZES)
def test_every_tab_shows_its_action_and_the_console_stays_empty(browser: Browser, address: str, size: str) -> None:
    said: list[str] = []
    page = opened(browser, f"{address}?project=maria", size, said)
    expect(page.get_by_role("combobox", name=text.PROJECT, exact=True)).to_have_value("maria")
    for name in (text.TRAIN_TAB, text.INFERENCE_TAB, text.SYSTEM_TAB, text.DATA_TAB):
        tab(page, name).click()
        page.wait_for_function(f"({IN_VIEW})() >= 1")
        expect(page.locator(".internal:visible")).to_have_count(0)
    page.locator("#clips-table [role=gridcell]").first.click()
    expect(page.locator("#clip-box")).to_be_visible()
    page.locator("#clip-exclude").click()
    expect(page.locator("#clip-title")).to_contain_text(text.STATUS["dropped"])
    assert page.locator(".internal").count() >= 3
    expect(page.locator(".internal:visible")).to_have_count(0)
    page.locator("#clip-restore").click()
    expect(page.locator("#clip-title")).to_contain_text(text.STATUS["used"])
    assert not [name for name in page.evaluate(NAMES) if re.search(r"\.\d{3,}", name)]
    assert page.evaluate(KEYS) == []
    assert said == []
    page.close()


@pytest.mark.parametrize(
    ("name", "size"),
    [
        pytest.param(name, size, marks=[] if (name, size) in FILLED else [pytest.mark.slow])
        for name in ("data", "train", "inference", "system")
        for size in SIZES
    ],
)
def test_nothing_moves_while_the_page_is_filled(browser: Browser, address: str, name: str, size: str) -> None:
    """On a busy machine an answer may come after all that was waited for: only what moves each time is a fault."""
    shifts = []
    while len(shifts) < 3 and (not shifts or shifts[-1] >= MAX_SHIFT):
        page = browser.new_page(viewport=SIZES[size])
        page.add_init_script(SHIFTS)
        page.goto(f"{address}?project=maria&tab={name}")
        expect(page.locator("#project-bar")).to_be_visible()
        expect(page.locator("html:not(.filling):not(.unanswered)")).to_be_attached()
        page.wait_for_timeout(2_000)
        shifts.append(page.evaluate("window.shift"))
        page.close()
    assert min(shifts) < MAX_SHIFT, shifts


def test_what_the_server_fills_in_is_in_the_language_of_the_page(browser: Browser, address: str) -> None:
    page = opened(browser, f"{address}?project=maria&lang=es", "desk", [])
    with speaking("es"):
        for words in (text.CLIP_COLUMNS[0], text.STATUS["used"]):
            expect(page.locator("#clips-table")).to_contain_text(words)
        tab(page, text.TRAIN_TAB).click()
        page.locator("#set-num-epochs textarea").fill("7")
        expect(page.locator("#set-num-epochs .setting-mark")).to_contain_text(text.SET_BY["you"])
    page.close()


def test_project_and_tab_stand_in_the_address(browser: Browser, address: str) -> None:
    page = opened(browser, f"{address}?project=maria&tab=train", "desk", [])
    project = page.get_by_role("combobox", name=text.PROJECT, exact=True)
    expect(project).to_have_value("maria")
    expect(tab(page, text.TRAIN_TAB)).to_have_attribute("aria-selected", "true")
    tab(page, text.INFERENCE_TAB).click()
    page.wait_for_url(re.compile("tab=inference"))
    page.reload()
    expect(tab(page, text.INFERENCE_TAB)).to_have_attribute("aria-selected", "true")
    page.go_back()
    expect(tab(page, text.TRAIN_TAB)).to_have_attribute("aria-selected", "true")
    expect(project).to_have_value("maria")
    project.click()
    page.get_by_role("option", name="anna").click()
    page.wait_for_url(re.compile("project=anna"))
    page.go_back()
    page.wait_for_url(re.compile("project=maria"))
    expect(project).to_have_value("maria")
    page.close()


def test_opening_a_project_asks_for_each_part_once(browser: Browser, address: str) -> None:
    page, asked = browser.new_page(viewport=SIZES["desk"]), Counter[int]()
    page.on("request", lambda sent: asked.update([json.loads(sent.post_data)["fn_index"]] if sent.post_data else []))
    page.goto(f"{address}?project=maria")
    expect(page.locator("#clips-table")).to_contain_text("One two three four")
    expect(page.locator("html:not(.filling):not(.unanswered)")).to_be_attached()
    page.wait_for_timeout(1_000)
    # The poll alone asks again.
    assert len(asked) > 5 and sum(number > 1 for number in asked.values()) <= 1, asked
    page.close()


def test_a_project_that_is_gone_leaves_the_page_with_one_that_is_there(browser: Browser, address: str) -> None:
    page = opened(browser, f"{address}?project=missing&tab=nothing", "desk", [])
    expect(page.get_by_role("combobox", name=text.PROJECT, exact=True)).to_have_value(re.compile("anna|clara|maria"))
    expect(tab(page, text.DATA_TAB)).to_have_attribute("aria-selected", "true")
    page.wait_for_url(re.compile("project=(anna|clara|maria)"))
    page.close()


def test_the_step_listen_leads_into_the_text(browser: Browser, address: str) -> None:
    page = opened(browser, f"{address}?project=clara", "desk", [])
    page.locator("#step-listen").click()
    box = page.locator("#speak-text textarea")
    expect(box).to_be_focused()
    page.keyboard.type("Go on.")
    expect(box).to_have_value("Go on.")
    page.close()


def test_speak_pressed_again_says_why_it_waits_and_stop_shows_the_end(browser: Browser, address: str) -> None:
    said: list[str] = []
    page = opened(browser, f"{address}?project=maria&tab=inference", "desk", said)
    expect(page.locator("html:not(.filling):not(.unanswered)")).to_be_attached()
    expect(page.get_by_role("combobox", name=text.MODEL, exact=True)).not_to_have_value("")
    page.locator("#speak-text textarea").fill("This is a long text, which takes its time. " * 200)
    status = page.locator("#take-status")
    while text.TAKE_STATES["speaking"] not in status.inner_text():
        page.locator("#speak").click()
        page.wait_for_timeout(1_000)
    toast = page.locator(".toast-wrap").get_by_text(text.STILL_SPEAKING)
    # A click within the one before is dropped by gradio itself.
    while toast.count() == 0:
        assert text.TAKE_STATES["speaking"] in status.inner_text(), "it ended before it could be asked again"
        page.locator("#speak").click()
        page.wait_for_timeout(2_000)
    page.locator("#stop-speaking").click()
    expect(status).to_contain_text(text.TAKE_STATES["stopped"], timeout=60_000)
    page.close()


@pytest.mark.parametrize(
    ("size", "theme"),
    [
        ("phone", "light"),
        pytest.param("desk", "dark", marks=pytest.mark.slow),
        pytest.param("phone", "dark", marks=pytest.mark.slow),
        pytest.param("desk", "light", marks=pytest.mark.slow),
    ],
)
def test_nothing_serious_keeps_people_out(browser: Browser, address: str, size: str, theme: str) -> None:
    """By axe-core, against WCAG 2.2 AA: names, roles, contrast and order of each tab."""
    script = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
    page = opened(browser, f"{address}?project=maria&__theme={theme}", size, [])
    expect(page.get_by_role("combobox", name=text.PROJECT, exact=True)).to_have_value("maria")
    page.evaluate(script)
    for name in (text.DATA_TAB, text.TRAIN_TAB, text.INFERENCE_TAB, text.SYSTEM_TAB):
        tab(page, name).click()
        if name == text.DATA_TAB:
            page.locator("#clips-table [role=gridcell]").first.click()
            expect(page.locator("#clip-sound").get_by_role("button", name="Play", exact=True)).to_be_visible()
        # Some part always waits for its next answer on a busy machine. Colors settle within half a second.
        page.wait_for_function(OPAQUE)
        page.wait_for_timeout(1_500)
        found = page.evaluate(AXE)
        serious = [fault for fault in found if fault["impact"] in ("serious", "critical")]
        assert [(fault["id"], fault["nodes"]) for fault in serious] == [], name
    page.close()


def test_without_the_server_one_banner_says_so_until_it_answers(browser: Browser, address: str) -> None:
    page = opened(browser, f"{address}?project=maria", "desk", [])
    expect(page.get_by_role("combobox", name=text.PROJECT, exact=True)).to_have_value("maria")
    banner = page.locator("#offline-banner")
    expect(banner).to_be_hidden()
    page.context.set_offline(True)
    expect(banner).to_be_visible()
    expect(banner).to_have_text(text.OFFLINE)
    page.context.set_offline(False)
    expect(banner).to_be_hidden()
    page.close()


def test_clips_are_found_and_walked_through_by_keys(browser: Browser, address: str) -> None:
    page = opened(browser, f"{address}?project=maria", "desk", [])
    table, cells = page.locator("#clips-table"), page.locator("#clips-table [role=gridcell]")
    expect(table).to_contain_text("One two three four")
    page.locator("#change-found > button").click()
    page.locator("#find-clips textarea, #find-clips input").first.fill("five")
    expect(table).not_to_contain_text("One two three four")
    page.locator("#find-clips textarea, #find-clips input").first.fill("")
    expect(table).to_contain_text("One two three four")
    cells.first.click()
    words = page.locator("#clip-text textarea")
    expect(words).to_have_value("One two three four")
    page.locator("#clip-save").focus()
    page.keyboard.press("ArrowRight")
    expect(words).to_have_value("Five")
    page.keyboard.press("e")
    expect(words).to_be_focused()
    page.keyboard.type("x")
    expect(words).to_have_value(re.compile("x"))
    page.keyboard.press("Escape")
    page.locator("#clip-save").focus()
    # An answer fills the fields one by one: on a busy machine the clip's name, which is hidden, may come last.
    page.wait_for_timeout(1_000)
    page.keyboard.press("ArrowLeft")
    expect(words).to_have_value("One two three four")
    page.keyboard.press("x")
    expect(page.locator("#clips-table")).to_contain_text("excluded")
    page.locator("#clips-undo").click()
    expect(page.locator("#clips-table")).not_to_contain_text("excluded by hand")
    page.close()
