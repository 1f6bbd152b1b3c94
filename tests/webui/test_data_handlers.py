"""Tabs 1 and 3 without a page: which jobs a click starts, which bases may be named, what is refused at once."""

import json
from pathlib import Path
from typing import Any

import pytest

from utils.bases import catalog
from utils.config import TrainConfig
from utils.errors import UserError
from utils.project.paths import Project
from utils.project.projects import ProjectSettings, create_project
from utils.text.language_settings import LanguageConfig
from webui import text
from webui.change import TOAST
from webui.handlers import data, language, live
from webui.handlers import project as bar
from webui.studio import Studio
from webui.temporary import own_folder
from webui.views import language as language_view

EVIL = "<img src=x onerror=alert(1)>"
NAME = {"project.project": "maria"}


# Bases


def test_the_default_base_is_the_one_of_the_commands():
    assert TrainConfig(project="any").base == bar.DEFAULT_BASE


def test_a_starter_base_is_offered_first_once_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "assets_folder", lambda: tmp_path)
    assert "starter" not in [name for _, name in bar.base_choices()]
    (tmp_path / "starter").mkdir()
    (tmp_path / "starter" / "config.json").write_text("{}")
    assert bar.base_choices()[0] == (text.BASE_NAMES["starter"], "starter")


@pytest.mark.parametrize("base", ["/etc", "../../assets", "missing", 3, ["tiny"], "tiny\x00"])
def test_a_base_that_is_not_offered_is_refused_everywhere(studio, project, started, base):
    form = {**NAME, "project.language": "en", "project.base": base, "train.start_from": "", "language.corpus": None}
    with pytest.raises(UserError, match="there is no base"):
        language.look(studio, form)
    with pytest.raises(UserError, match="there is no base"):
        bar.keep_base(studio, form)
    with pytest.raises(UserError, match="there is no base"):
        bar.create(studio, {**form, "project.new_project": "other"})
    assert started == [] and ProjectSettings.load(project).base == "tiny"
    assert not (project.output / "other").exists()


def test_a_name_of_several_words_becomes_a_name_of_a_folder(studio, project):
    values = {"project.new_project": " My  voice ", "project.language": "en", "project.base": "tiny"}
    assert bar.create(studio, values)["project.project"]["value"] == "my-voice"
    with pytest.raises(UserError, match="cannot be used as a project name"):
        bar.create(studio, values | {"project.new_project": "../my voice"})


def test_two_tabs_that_choose_language_and_base_do_not_undo_each_other(studio, project):
    fresh = create_project("anna", project.output, ProjectSettings(language="en", base="tiny"))
    seen = {"project.project": "anna", "project.language": "en", "project.base": "tiny"}
    bar.keep_base(studio, seen | {"project.base": "starter"})
    # The other tab has not learned of it yet.
    assert bar.keep_language(studio, seen | {"project.language": "de"})["project.language"]["value"] == "de"
    kept = ProjectSettings.load(fresh)
    assert (kept.base, kept.language) == ("starter", "de")


def make_base(project: Project, name: str) -> Path:
    folder = project.folder / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"")
    (folder / "about.json").write_text('{"training": {"num_epochs": 7}}')
    return folder


def test_a_base_made_for_a_project_is_offered_to_it_alone_and_can_be_used(studio, project):
    create_project("other", project.output, ProjectSettings(language="en", base="tiny"))
    with pytest.raises(UserError, match="no extended base"):
        language.adopt(studio, NAME)
    made = str(make_base(project, "base-en"))
    assert language.adopt(studio, NAME)["project.base"]["value"] == made
    assert ProjectSettings.load(project).base == made
    assert made in [name for _, name in bar.base_choices(project)]
    assert made not in [name for _, name in bar.base_choices(Project(name="other", output=project.output))]
    assert live.poll(studio, {**NAME, "project.base": made, "train.run": ""})["train.set_num_epochs"] == {
        "placeholder": "7 (base-en)"
    }


def test_a_link_is_no_base(project, tmp_path):
    outside = make_base(Project(name="x", output=tmp_path / "elsewhere"), "base-en")
    (project.folder / "base-en").symlink_to(outside)
    assert catalog.project_bases(project) == []


# Uploads


def test_an_upload_says_what_it_replaced(studio, project, tmp_path):
    def give(name: str) -> dict[str, Any]:
        (tmp_path / name).write_text("audio_file|text\na.wav|Hello.\n", encoding="utf-8")
        return data.upload(studio, {**NAME, "data.files": [str(tmp_path / name)]})

    assert give("metadata.csv")[TOAST] == "1 file was added."
    assert give("more.csv")[TOAST] == "1 file was added."
    assert "same name: metadata.csv." in give("metadata.csv")[TOAST]


def test_files_that_came_before_the_project_are_added_to_it_once_it_is_created(studio, tmp_path):
    (tmp_path / "a.txt").write_text("Hello.", encoding="utf-8")
    waiting = {"data.files": [str(tmp_path / "a.txt")]}
    with pytest.raises(UserError, match="no project is selected") as caught:
        data.upload(studio, {"project.project": "", **waiting})
    assert "the files are then added" in caught.value.fix
    assert data.take_waiting(studio, {"project.project": "", **waiting}) == {}
    taken = data.take_waiting(studio, {**NAME, **waiting})
    assert taken["data.files"] is None and "1</b> transcript<" in taken["data.uploads"]
    assert data.take_waiting(studio, {**NAME, "data.files": None}) == {}


def test_a_refused_upload_does_not_stay(studio, project, tmp_path):
    with own_folder() as folder:
        for name in ("a.exe", "b.wav"):
            (folder / name).write_bytes(b"x" * 100)
            form = {**NAME, "data.files": [str(folder / name)]}
            with pytest.raises(UserError):
                data.upload(Studio(output=project.output, quota_bytes=10), form)
            assert not (folder / name).exists()
            assert data.take_waiting(studio, form) == {"data.files": None}
    (tmp_path / "c.exe").write_bytes(b"x")
    with pytest.raises(UserError):
        data.upload(studio, {**NAME, "data.files": [str(tmp_path / "c.exe")]})
    assert (tmp_path / "c.exe").exists(), "only what lies in the app's folder is removed"


# Language


def test_looking_and_extending_are_jobs(studio, project, started, tmp_path):
    form = {**NAME, "project.language": "en", "project.base": "tiny", "language.corpus": None}
    language.look(studio, form)
    language.extend(studio, {**form, "language.new_tokens": 50})
    plain = LanguageConfig(project="maria", output=project.output, language="en", base="tiny")
    assert started[0] == ("language", plain)
    assert (started[1][1].extend, started[1][1].g2p) == (50, None)
    given = tmp_path / "words.txt"
    given.write_text("ሰላም")
    language.latin(studio, {**form, "project.language": "amh", "language.corpus": str(given)})
    config = started[2][1]
    assert config.g2p == "amh" and config.corpus.read_text() == "ሰላም" and config.corpus.is_relative_to(project.folder)


def test_a_number_of_tokens_that_is_none_is_refused(studio, project, started):
    form = {**NAME, "project.language": "en", "project.base": "tiny", "language.corpus": None}
    with pytest.raises(UserError, match="many"):
        language.extend(studio, {**form, "language.new_tokens": "many"})
    assert started == []


def test_a_base_that_exists_stays_and_the_next_has_a_name_of_its_own_that_the_page_tells(studio, project, started):
    form = {**NAME, "project.language": "en", "project.base": "tiny", "language.corpus": None}
    polled = {**NAME, "project.base": "tiny", "train.run": ""}
    for number, name in enumerate(("base-en", "base-en-2", "base-en-3")):
        shown = live.poll(studio, polled)
        assert f"will be called {name}." in shown["language.next"]
        assert name in language.extend(studio, {**form, "language.new_tokens": 50})[TOAST]
        assert started[number][1].another
        make_base(project, name)
        adopt = live.poll(studio, polled)["language.adopt"]
        assert adopt == {"visible": True, "value": text.ADOPT.format(name=name)}
    offered = [Path(value).name for _, value in bar.base_choices(project) if Path(value).is_absolute()]
    assert offered == ["base-en", "base-en-2", "base-en-3"]
    assert Path(ProjectSettings.load(project).base).name == "tiny", "made is not used: that is a click of its own"
    language.adopt(studio, NAME)
    assert Path(ProjectSettings.load(project).base).name == "base-en-3"


def test_a_base_of_another_language_or_a_link_does_not_stand_for_the_projects_own(project, tmp_path):
    make_base(project, "base-enx")
    make_base(project, "base-de")
    assert catalog.newest_made(project, "en") is None
    (project.folder / "base-en").symlink_to(tmp_path / "nowhere")
    assert catalog.base_home(project.folder, "en", another=True).name == "base-en-2"


@pytest.mark.parametrize("code", ["../../../x", "e", "en\x00", "<b>"])
def test_a_language_that_is_no_code_is_refused(studio, started, code):
    form = {**NAME, "project.language": code, "project.base": "tiny", "language.corpus": None}
    with pytest.raises(UserError, match="use a code such as"):
        language.extend(studio, {**form, "language.new_tokens": 50})
    assert started == []


def reading(**values: Any) -> dict[str, Any]:
    plain = {"num_texts": 10, "over_limit": 1, "tokens_per_word": 2.0, "tokens_per_second": 20.5}
    plain |= {"num_unknown": 0, "limit": 200}
    return {**plain, "samples": [["he", EVIL]], "unknown": [], "notes": [], **values}


def test_a_look_is_shown_before_and_after_and_its_letters_stay_text(project):
    assert language_view.found(project) == ""
    before = reading(unknown=[["ሰ", 12], [EVIL, 1]], num_unknown=50, tokens_per_second=None, over_limit=4)
    values = {"language": "amh", "base": "tiny", "source": "/x/c.txt", "before": before}
    values |= {"after": reading(), "made": "/x/base-amh", "advice": None}
    (project.folder / "language.json").write_text(json.dumps(values), encoding="utf-8")
    shown = language_view.found(project)
    for words in ("ሰ (12)", "and 48 more", "20.5", "4 of 10 (40.0%; limit 200 tokens)", "base-amh", text.NO_SOUND):
        assert words in shown
    assert "<img" not in shown


@pytest.mark.parametrize("content", ["", "[]", '{"before": 3, "after": null}'])
def test_a_look_that_was_spoiled_says_so(project, content):
    (project.folder / "language.json").write_text(content)
    assert text.NO_READING in language_view.found(project)
