"""The page in a browser over projects that are there: its address, its names, and a console without complaints.

A page on a desk and one on a phone show one promise after the other: to open a page takes most of a test's time.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import axe_playwright_python
import pytest
import torch
from playwright.sync_api import Browser, Locator, Page, Request, expect

from tests.webui.browser import open_folds
from tests.webui.small_project import make_project
from utils.audio.write import write_wav
from utils.options import DATASET_RATE, SpeechSettings
from utils.project.paths import Project
from utils.speech.takes import new_take
from utils.text.pronunciations import read_pronunciations
from webui import text
from webui.text.catalog import speaking

pytestmark = [pytest.mark.browser, pytest.mark.programs]
expect.set_options(timeout=90_000)

TABS = {"data": text.DATA_TAB, "train": text.TRAIN_TAB, "inference": text.INFERENCE_TAB, "system": text.SYSTEM_TAB}
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
KEYS = "() => [...document.querySelectorAll('[role=status]')].map(e => e.textContent).filter(t => /^common\\./.test(t))"
UNNAMED = """() => [...document.querySelectorAll('input, textarea, select, button')]
    .filter(e => e.offsetParent !== null && e.type !== 'file')
    .filter(e => !(e.labels && e.labels.length) && !e.getAttribute('aria-label') && !e.getAttribute('aria-labelledby')
        && !e.title && !e.innerText.trim())
    .map(e => e.outerHTML.slice(0, 200))"""
"""Fields and buttons that a screen reader could only call by their kind; a placeholder is no name."""
LEFT = ("AbortError: signal is aborted", "Connection errored out")
"""What a page says of its polls when it is left."""
STILL = "*, ::before, ::after { transition: none !important; animation: none !important }"
"""Colors are at their ends at once."""


@pytest.fixture(scope="module")
def project(own_output: Path) -> Project:
    """Has all that a page can show; beside it one more, and one that exported a model."""
    exported = make_project(own_output, "clara")
    (exported.runs / "one" / "checkpoints" / "step-1").mkdir(parents=True)
    exported.ready.mkdir()
    (exported.ready / "model.pth").write_bytes(b"weights")
    for name in ("anna", "maria"):
        for sound in (make_project(own_output, name).dataset / "wavs").iterdir():
            write_wav(sound, torch.zeros(1, DATASET_RATE), DATASET_RATE)
    project = Project(name="maria", output=own_output)
    take = new_take(project, ["One."], model="base/tiny", settings=SpeechSettings())
    write_wav(take.folder / "0001.wav", torch.zeros(1, DATASET_RATE), DATASET_RATE)
    take.changed(lines=(replace(take.lines[0], state="finished", file="0001.wav"),), state="finished").save()
    return project


@pytest.fixture(scope="module")
def said() -> list[str]:
    """What the consoles of the pages complain of."""
    return []


@pytest.fixture(autouse=True)
def console_stays_empty(said: list[str]) -> Iterator[None]:
    yield
    found = [words for words in said if not any(left in words for left in LEFT)]
    said.clear()
    assert found == []


@pytest.fixture(scope="module")
def pages(browser: Browser, project: Project, said: list[str]) -> dict[str, Page]:
    """By size, in a browser of a language that the page does not have: it is in English."""
    found = {size: browser.new_page(viewport=SIZES[size], locale="de") for size in SIZES}
    for page in found.values():
        page.add_init_script(SHIFTS)
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on(
            "response", lambda answer: said.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None
        )
    return found


@pytest.fixture
def desk(pages: dict[str, Page], own_address: str) -> Page:
    return shown(pages["desk"], own_address)


def shown(page: Page, url: str, **asked: str) -> Page:
    """The page at a project, which it is loaded for unless it shows it already."""
    if asked or "project=maria" not in page.url:
        load(page, url, **asked)
    return page


def load(page: Page, url: str, **asked: str) -> None:
    page.goto(f"{url}?{'&'.join(f'{name}={value}' for name, value in ({'project': 'maria'} | asked).items())}")
    filled(page)


def filled(page: Page) -> None:
    expect(page.locator("#project-bar")).to_be_visible()
    expect(page.locator("html:not(.filling):not(.unanswered)")).to_be_attached()


def tab(page: Page, name: str) -> Locator:
    return page.get_by_role("tab", name=TABS[name], exact=True)


def chosen(page: Page) -> Locator:
    return page.get_by_role("combobox", name=text.PROJECT, exact=True)


def choose_project(page: Page, name: str) -> None:
    chosen(page).click()
    page.get_by_role("option", name=name).click()
    page.wait_for_url(re.compile(f"project={name}"))


@pytest.mark.slow
@pytest.mark.parametrize("name", TABS)
@pytest.mark.parametrize("size", SIZES)
def test_nothing_moves_while_the_page_is_filled(pages, own_address, name, size):
    """On a busy machine an answer may come after all that was waited for: only what moves each time is a fault."""
    shifts = []
    while len(shifts) < 5 and (not shifts or shifts[-1] >= MAX_SHIFT):
        load(pages[size], own_address, tab=name)
        pages[size].wait_for_timeout(2_000)
        shifts.append(pages[size].evaluate("window.shift"))
    assert min(shifts) < MAX_SHIFT, shifts


@pytest.mark.parametrize("size", ["desk", pytest.param("phone", marks=pytest.mark.slow)])
def test_every_tab_shows_its_action_in_english(pages, own_address, size):
    page = shown(pages[size], own_address)
    expect(chosen(page)).to_have_value("maria")
    for name in ("train", "inference", "system", "data"):
        tab(page, name).click()
        page.wait_for_function(f"({IN_VIEW})() >= 1")
        expect(page.locator(".internal:visible")).to_have_count(0)
    assert page.locator("html").get_attribute("lang") == "en"
    expect(page.locator("#upload")).to_contain_text("Drop File Here")
    assert not [name for name in page.evaluate(NAMES) if re.search(r"\.\d{3,}", name)]
    assert page.evaluate(KEYS) == []


def parts_asked_for(page: Page) -> Counter[str]:
    """How often each part is asked for while the page is loaded again; the poll goes on, and does not count."""
    sent: list[Request] = []

    def add(request: Request) -> None:
        sent.append(request)

    names = dict(page.evaluate("gradio_config.dependencies.map(one => [one.id, one.api_name])"))

    def part_of(request: Request) -> str:
        return names[json.loads(request.post_data)["fn_index"]] if request.post_data else ""

    page.on("request", add)
    # On a busy machine the poll takes longer than all else.
    with page.expect_request(lambda request: part_of(request) == "live"):
        page.reload()
        filled(page)
        page.wait_for_timeout(1_000)
    page.remove_listener("request", add)
    asked = Counter(map(part_of, sent))
    del asked[""]
    assert asked.pop("live") >= 1
    return asked


@pytest.mark.slow
def test_each_part_is_asked_for_once(desk):
    # On a busy machine the first poll may come before the base, and tab 1 is filled for each: only what is asked for
    # again each time is a fault.
    for _ in range(3):
        asked = parts_asked_for(desk)
        if max(asked.values()) == 1:
            break
    assert asked["data_show"] == max(asked.values()) == 1, asked


def test_project_and_tab_stand_in_the_address(desk):
    tab(desk, "inference").click()
    desk.wait_for_url(re.compile("tab=inference"))
    tab(desk, "train").click()
    desk.wait_for_url(re.compile("tab=train"))
    expect(tab(desk, "train")).to_have_attribute("aria-selected", "true")
    desk.go_back()
    expect(tab(desk, "inference")).to_have_attribute("aria-selected", "true")
    expect(chosen(desk)).to_have_value("maria")
    choose_project(desk, "anna")
    desk.go_back()
    desk.wait_for_url(re.compile("project=maria"))
    expect(chosen(desk)).to_have_value("maria")
    filled(desk)


def test_clips_are_found_and_walked_through_by_keys(desk):
    tab(desk, "data").click()
    table, title = desk.locator("#clips-table"), desk.locator("#clip-title")
    cells = table.get_by_role("gridcell")
    expect(table).to_contain_text("One two three four")
    desk.locator("#change-found > button").click()
    desk.locator("#find-clips textarea, #find-clips input").first.fill("five")
    expect(table).not_to_contain_text("One two three four")
    desk.locator("#find-clips textarea, #find-clips input").first.fill("")
    expect(table).to_contain_text("One two three four")
    cells.first.click()
    words = desk.locator("#clip-text textarea")
    expect(words).to_have_value("One two three four")
    desk.locator("#clip-save").focus()
    desk.keyboard.press("ArrowRight")
    expect(words).to_have_value("Five")
    desk.keyboard.press("e")
    expect(words).to_be_focused()
    desk.keyboard.type("x")
    expect(words).to_have_value(re.compile("x"))
    desk.keyboard.press("Escape")
    desk.locator("#clip-save").focus()
    # An answer fills the fields one by one: on a busy machine the clip's name, which is hidden, may come last.
    desk.wait_for_timeout(1_000)
    desk.keyboard.press("ArrowLeft")
    expect(words).to_have_value("One two three four")
    desk.keyboard.press("x")
    expect(table).to_contain_text("excluded")
    desk.locator("#clips-undo").click()
    expect(table).not_to_contain_text("excluded by hand")
    cells.first.click()
    desk.locator("#clip-exclude").click()
    expect(title).to_contain_text(text.STATUS["dropped"])
    assert desk.locator(".internal").count() >= 3
    expect(desk.locator(".internal:visible")).to_have_count(0)
    desk.locator("#clip-restore").click()
    expect(title).to_contain_text(text.STATUS["used"])


@pytest.mark.slow
def test_every_field_has_a_name_for_screen_readers(desk):
    """With every fold open, and the editor of a clip."""
    tab(desk, "data").click()
    desk.locator("#clips-table [role=gridcell]").first.click()
    expect(desk.locator("#clip-box")).to_be_visible()
    for name in TABS:
        tab(desk, name).click()
        open_folds(desk)
        assert desk.evaluate(UNNAMED) == [], name


def test_a_word_is_entered_in_the_table_of_pronunciations(desk, project):
    tab(desk, "inference").click()
    open_folds(desk)
    field = desk.locator("#pronunciations textarea")
    expect(field).to_have_value("word,say,language\n")
    field.fill("word,say,language\nGPU,gee pee you,en\n")
    desk.locator("#save-pronunciations").click()
    expect(desk.get_by_text(text.PRONUNCIATIONS_SAVED).first).to_be_visible()
    assert read_pronunciations(project.folder / "pronunciations.csv") == [("GPU", "gee pee you", "en")]


def test_the_step_listen_leads_into_the_text(desk):
    tab(desk, "data").click()
    choose_project(desk, "clara")
    desk.locator("#step-listen").click()
    box = desk.locator("#speak-text textarea")
    expect(box).to_be_focused()
    desk.keyboard.type("Go on.")
    expect(box).to_have_value("Go on.")


@pytest.mark.slow
def test_without_the_server_one_banner_says_so_until_it_answers(pages, own_address, said):
    page = shown(pages["desk"], own_address)
    banner = page.locator("#offline-banner")
    expect(banner).to_be_hidden()
    page.context.set_offline(True)
    expect(banner).to_be_visible()
    expect(banner).to_have_text(text.OFFLINE)
    page.context.set_offline(False)
    expect(banner).to_be_hidden()
    said.clear()


@pytest.mark.parametrize(
    ("size", "theme"),
    [
        ("desk", "light"),
        pytest.param("desk", "dark", marks=pytest.mark.slow),
        pytest.param("phone", "dark", marks=pytest.mark.slow),
        pytest.param("phone", "light", marks=pytest.mark.slow),
    ],
)
def test_nothing_serious_keeps_people_out(pages, own_address, size, theme):
    """By axe-core, against WCAG 2.2 AA: names, roles, contrast and order of each tab; nor need they scroll sideways."""
    script = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
    page = shown(pages[size], own_address, **({"__theme": theme} if theme == "dark" else {}))
    page.add_style_tag(content=STILL)
    page.evaluate(script)
    for name in TABS:
        tab(page, name).click()
        if name == "data":
            page.locator("#clips-table [role=gridcell]").first.click()
            expect(page.locator("#clip-sound").get_by_role("button", name="Play", exact=True)).to_be_visible()
        # Some part always waits for its next answer on a busy machine.
        page.wait_for_function(OPAQUE)
        found = page.evaluate(AXE)
        serious = [fault for fault in found if fault["impact"] in ("serious", "critical")]
        assert [(fault["id"], fault["nodes"]) for fault in serious] == [], name
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size]["width"], name


@pytest.mark.slow
def test_a_project_that_is_gone_leaves_the_page_with_one_that_is_there(pages, own_address):
    page = pages["desk"]
    load(page, own_address, project="missing", tab="nothing")
    expect(chosen(page)).to_have_value(re.compile("^(?!missing$)."))
    expect(tab(page, "data")).to_have_attribute("aria-selected", "true")
    page.wait_for_url(re.compile("project=(?!missing)"))


def test_what_the_server_fills_in_is_in_the_language_of_the_page(pages, own_address):
    page = pages["desk"]
    load(page, own_address, lang="es")
    assert page.locator("html").get_attribute("lang") == "es"
    # gradio's own words as well.
    expect(page.locator("#upload")).to_contain_text("Coloque el archivo aquí")
    with speaking("es"):
        for words in (text.CLIP_COLUMNS[0], text.STATUS["used"]):
            expect(page.locator("#clips-table")).to_contain_text(words)
        page.get_by_role("tab", name=text.TRAIN_TAB, exact=True).click()
        page.locator("#set-num-epochs textarea").fill("7")
        expect(page.locator("#set-num-epochs .setting-mark")).to_contain_text(text.SET_BY["you"])
