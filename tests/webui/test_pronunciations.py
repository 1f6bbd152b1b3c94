"""Tab 3, a project's table of pronunciations: shown, saved, and refused where a row is none."""

import pytest

from utils.errors import UserError
from utils.text.pronunciations import read_pronunciations
from webui.handlers import pronunciations

NAME = {"project.project": "maria"}
TABLE = pronunciations.TABLE


def test_a_table_is_saved_and_shown(studio, project):
    path = project.folder / "pronunciations.csv"
    assert pronunciations.show(studio, NAME) == {TABLE: "word,say,language\n"}
    pronunciations.save(studio, {**NAME, TABLE: "word,say,language\nGPU,gee pee you,en\n"})
    assert read_pronunciations(path) == [("GPU", "gee pee you", "en")]
    assert pronunciations.show(studio, NAME)[TABLE] == path.read_text(encoding="utf-8")
    assert pronunciations.show(studio, {"project.project": None}) == {TABLE: "word,say,language\n"}
    with pytest.raises(UserError, match="no word, or nothing to say") as error:
        pronunciations.save(studio, {**NAME, TABLE: "word,say,language\nGPU\n"})
    assert error.value.where == f"{path}, line 2", "not a file that is gone"
    assert read_pronunciations(path) == [("GPU", "gee pee you", "en")], "the project still speaks"
    pronunciations.save(studio, {**NAME, TABLE: None})
    assert read_pronunciations(path) == []


def test_a_table_that_is_no_utf_8_is_named_and_not_replaced(studio, project):
    path = project.folder / "pronunciations.csv"
    path.write_text("word,say,language\ncafé,ka fé,fr\n", encoding="cp1252")
    before, shown = path.read_bytes(), pronunciations.show(studio, NAME)[TABLE]
    assert shown["value"] == "" and "not UTF-8" in shown["placeholder"] and str(path) in shown["placeholder"]
    with pytest.raises(UserError, match="not UTF-8"):
        pronunciations.save(studio, {**NAME, TABLE: shown["value"]})
    assert path.read_bytes() == before
