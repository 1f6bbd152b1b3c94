"""Projects of an output folder: made once, listed by name, with what was chosen for each."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from utils.errors import UserError
from utils.project.projects import ProjectSettings, create_project, find_project, list_projects, project_language

CHOSEN = ProjectSettings(language="de", base="tiny")


def test_a_project_is_listed_with_what_was_chosen(tmp_path):
    create_project("bert", tmp_path, CHOSEN)
    project = create_project("anna", tmp_path, CHOSEN)
    assert [found.name for found in list_projects(tmp_path)] == ["anna", "bert"]
    assert ProjectSettings.load(find_project("anna", tmp_path)) == CHOSEN
    assert project_language(project) == "de"


def test_the_datasets_language_wins(tmp_path):
    project = create_project("anna", tmp_path, CHOSEN)
    project.dataset.mkdir()
    project.language_file.write_text("am\n", encoding="utf-8")
    assert project_language(project) == "am"


@pytest.mark.parametrize("name", ["anna", "Anna", "../x", "a b", "", "con", "x" * 65])
def test_a_name_that_is_taken_or_unsafe_is_refused(tmp_path, name):
    create_project("anna", tmp_path, CHOSEN)
    with pytest.raises(UserError):
        create_project(name, tmp_path, CHOSEN)
    assert [found.name for found in list_projects(tmp_path)] == ["anna"]


def test_folders_that_are_no_projects_are_left_out(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "a name with spaces" / "dataset").mkdir(parents=True)
    (tmp_path / "file.txt").touch()
    assert list_projects(tmp_path) == []
    assert list_projects(tmp_path / "none") == []


def test_an_output_folder_that_is_a_file_is_refused(tmp_path):
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(UserError, match="output folder cannot be read"):
        list_projects(path)


def test_a_link_out_of_the_output_folder_is_no_project(tmp_path):
    outside = create_project("anna", tmp_path / "elsewhere", CHOSEN)
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "anna").symlink_to(outside.folder)
    with pytest.raises(UserError, match="no project"):
        find_project("anna", tmp_path / "output")


@pytest.mark.parametrize("content", ["{", "[]", '{"language": 3}', "\x00"])
def test_a_spoiled_settings_file_chooses_nothing(tmp_path, content):
    project = create_project("anna", tmp_path, CHOSEN)
    (project.folder / "project.json").write_text(content, encoding="utf-8")
    assert ProjectSettings.load(project) == ProjectSettings()


def test_two_writers_of_one_projects_settings_leave_one_of_them_whole(tmp_path):
    project = create_project("anna", tmp_path, CHOSEN)
    choices = [ProjectSettings(language="de", base="x" * 20_000), ProjectSettings(language="fr", base="y" * 10)]

    def save_often(settings):
        for _ in range(200):
            settings.save(project)

    with ThreadPoolExecutor(len(choices)) as pool:
        writers = [pool.submit(save_often, settings) for settings in choices]
        while not all(writer.done() for writer in writers):
            assert ProjectSettings.load(project) in (CHOSEN, *choices)
    for writer in writers:
        writer.result()
    assert [path.name for path in project.folder.iterdir()] == ["project.json"]
