"""Uploads for a dataset: moved under safe names to where tables and transcripts find each other, or refused whole."""

from pathlib import Path

import pytest

from utils.dataset.sources.intake import (
    SOUNDS,
    TRANSCRIPTS,
    VIDEOS,
    add_uploads,
    count_kinds,
    keep_corpus,
    remove_uploads,
    safe_name,
    to_be_replaced,
    upload_sources,
    uploaded_files,
    uploads_folder,
)
from utils.errors import UserError
from utils.project.paths import Project


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
    folder = uploads_folder(project).parent
    assert [path.relative_to(folder).as_posix() for path in placed] == [
        "dataset/wavs/a.flac",
        "dataset/wavs/a.txt",
        "dataset/metadata.csv",
        "dataset/wavs/film.mp4",
        "archives/more.zip",
    ]
    assert upload_sources(project) == [folder / "dataset", folder / "archives" / "more.zip"]
    assert count_kinds([*uploaded_files(project), Path("voice")]) == [3, 1, 1, 1]


def test_one_file_of_another_kind_refuses_all(project, tmp_path):
    files = given(tmp_path / "up", "a.wav", "virus.exe")
    with pytest.raises(UserError, match=r"virus\.exe"):
        add_uploads(project, files)
    assert not uploaded_files(project)
    assert all(path.is_file() for path in files)


def test_the_same_name_again_replaces(project, tmp_path):
    for _ in range(2):
        add_uploads(project, given(tmp_path / "up", "a.wav"))
    assert [path.name for path in uploaded_files(project)] == ["a.wav"]


@pytest.mark.parametrize("name", ["metadata.txt", "Train.tsv", "metadata.csv"])
def test_a_table_lies_where_a_folder_is_searched_for_one(project, tmp_path, name):
    (placed,) = add_uploads(project, given(tmp_path / "up", name))
    assert placed.parent == uploads_folder(project) and placed.suffix == (".tsv" if name == "Train.tsv" else ".csv")


def test_an_archive_alone_is_the_source(project, tmp_path):
    add_uploads(project, given(tmp_path / "up", "all.zip"))
    assert [path.name for path in upload_sources(project)] == ["all.zip"]
    remove_uploads(project)
    assert upload_sources(project) == []


def test_what_is_accepted_is_what_can_be_read():
    from utils.audio.suffixes import AUDIO_SUFFIXES
    from utils.dataset.formats.cues import SUBTITLE_SUFFIXES

    assert set(SOUNDS + VIDEOS) == set(AUDIO_SUFFIXES)
    assert set(TRANSCRIPTS) == {".txt", ".lab", ".json", *SUBTITLE_SUFFIXES}


def test_a_text_of_the_language_is_kept_and_others_are_refused(project, tmp_path):
    kept = keep_corpus(project, given(tmp_path / "up", "mine.TXT")[0])
    assert kept.read_bytes() == b"x" * 10 and kept.name == "corpus.txt"
    with pytest.raises(UserError, match=r"song\.wav"):
        keep_corpus(project, given(tmp_path / "up", "song.wav")[0])
    with pytest.raises(UserError, match="does not fit"):
        keep_corpus(project, given(tmp_path / "up", "more.txt")[0], quota_bytes=5)
    link = tmp_path / "up" / "link.txt"
    link.symlink_to("/etc/passwd")
    with pytest.raises(UserError, match="is missing"):
        keep_corpus(project, link)


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
    assert not uploaded_files(project)
    assert project.folder.is_dir()


@pytest.mark.parametrize("names", [("a.wav", "A.wav"), ("metadata.csv", "metadata.txt"), ("a?.wav", "a:.wav")])
def test_of_two_files_that_would_be_one_neither_is_lost(project, tmp_path, names):
    files = given(tmp_path / "up", *names)
    with pytest.raises(UserError, match="the same name") as caught:
        add_uploads(project, files)
    assert all(repr(name) in caught.value.what for name in names)
    assert not uploaded_files(project) and all(path.is_file() for path in files)


def test_who_uploads_can_be_told_what_is_replaced(project, tmp_path):
    add_uploads(project, given(tmp_path / "up", "a.wav", "metadata.csv"))
    again = given(tmp_path / "up", "b.wav", "metadata.txt", "A.txt")
    assert to_be_replaced(project, again) == ["metadata.csv"]
