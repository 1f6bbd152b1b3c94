"""Tab 3, a project's table of pronunciations: shown, saved, and refused where a row is none."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.webui.app import running_app
from tests.webui.small_project import make_project
from utils.errors import UserError
from utils.project.paths import Project
from utils.text.pronunciations import read_pronunciations
from webui import text
from webui.handlers import pronunciations
from webui.studio import Studio

NAME = {"project.project": "maria"}
TABLE = pronunciations.TABLE


def test_a_table_is_saved_and_shown(studio: Studio, project: Project) -> None:
    path = project.folder / "pronunciations.csv"
    assert pronunciations.show(studio, NAME) == {TABLE: "word,say,language\n"}
    pronunciations.save(studio, {**NAME, TABLE: "word,say,language\nGPU,gee pee you,en\n"})
    assert read_pronunciations(path) == [("GPU", "gee pee you", "en")]
    assert pronunciations.show(studio, NAME)[TABLE] == path.read_text(encoding="utf-8")
    assert pronunciations.show(studio, {"project.project": None}) == {TABLE: "word,say,language\n"}
    with pytest.raises(UserError, match="no word, or nothing to say"):
        pronunciations.save(studio, {**NAME, TABLE: "word,say,language\nGPU\n"})
    assert read_pronunciations(path) == [("GPU", "gee pee you", "en")], "the project still speaks"
    pronunciations.save(studio, {**NAME, TABLE: None})
    assert read_pronunciations(path) == []


@pytest.mark.browser
@pytest.mark.programs
def test_a_word_is_entered_on_the_page(browser, tmp_path: Path) -> None:
    project = make_project(tmp_path, "maria")
    with running_app(tmp_path) as url:
        page = browser.new_page()
        page.set_default_timeout(60_000)
        page.goto(url)
        page.get_by_role("tab", name=text.INFERENCE_TAB).first.click()
        page.locator("#pronunciations-box > button.label-wrap").click()
        field = page.locator("#pronunciations textarea")
        expect(field).to_have_value("word,say,language\n", timeout=60_000)
        field.fill("word,say,language\nGPU,gee pee you,en\n")
        page.locator("#save-pronunciations").click()
        expect(page.get_by_text(text.PRONUNCIATIONS_SAVED).first).to_be_visible(timeout=60_000)
    assert read_pronunciations(project.folder / "pronunciations.csv") == [("GPU", "gee pee you", "en")]
