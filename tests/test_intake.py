"""Uploads for a dataset: moved under safe names to where tables and transcripts find each other, or refused whole."""

from pathlib import Path

import pytest

from utils.errors import UserError
from utils.intake import add_uploads, remove_uploads, safe_name, survey
from utils.paths import Project


@pytest.fixture
def project(tmp_path):
    return Project(name="p", output=tmp_path / "output")


def given(folder: Path, *names: str) -> list[Path]:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"x" * 10)
    return [folder / name for name in names]


def test_files_lie_where_a_table_looks_for_them(project, tmp_path):
    placed = add_uploads(project, given(tmp_path / "up", "a.FLAC", "a.txt", "metadata.csv", "film.mp4", "more.zip"))
    folder = survey(project).folder
    assert [str(path.relative_to(folder)) for path in placed] == [
        "wavs/a.flac",
        "wavs/a.txt",
        "metadata.csv",
        "wavs/film.mp4",
        "more.zip",
    ]
    found = survey(project)
    assert (found.recordings, found.transcripts, found.tables, found.archives, found.num_bytes) == (2, 1, 1, 1, 50)


def test_one_file_of_another_kind_refuses_all(project, tmp_path):
    files = given(tmp_path / "up", "a.wav", "virus.exe")
    with pytest.raises(UserError, match=r"virus\.exe"):
        add_uploads(project, files)
    assert survey(project).num_files == 0
    assert all(path.is_file() for path in files)


def test_the_same_name_again_replaces(project, tmp_path):
    for _ in range(2):
        add_uploads(project, given(tmp_path / "up", "a.wav"))
    assert survey(project).recordings == 1


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd.wav", "passwd.wav"),
        ("C:\\Users\\me\\a b.WAV", "a b.wav"),
        ("<img src=x onerror=alert(1)>.wav", "_img src_x onerror_alert(1)_.wav"),
        ("...wav", "file.wav"),
        ("ሰላም.wav", "ሰላም.wav"),
        ("a\x00b\n.wav", "a_b_.wav"),
        ("x" * 400 + ".wav", "x" * 150 + ".wav"),
    ],
)
def test_names_become_safe(name, safe):
    assert safe_name(name) == safe


def test_removing_uploads_leaves_the_rest(project, tmp_path):
    add_uploads(project, given(tmp_path / "up", "a.wav"))
    remove_uploads(project)
    assert survey(project).num_files == 0
    assert project.folder.is_dir()
