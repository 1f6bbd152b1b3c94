"""Uploads lie in their project under names that are safe everywhere, within quota and disk, all or none."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from utils import uploads
from utils.errors import UserError
from utils.paths import Project
from utils.uploads import safe_file_name, store_uploads, uploaded_bytes


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(name="voice", output=tmp_path / "output")


def file(folder: Path, content: bytes, name: str = "source") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("clip_01.wav", "clip_01.wav"),
        ("Grüße aus Köln.FLAC", "Grüße_aus_Köln.flac"),
        ("ድምፅ.mp3", "ድምፅ.mp3"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\voice.wav", "voice.wav"),
        ("a;rm -rf $HOME`x`|y.wav", "a_rm_-rf__HOME_x__y.wav"),
        ("<img src=x onerror=alert(1)>.srt", "_img_src_x_onerror_alert_1__.srt"),
        ("-rf.wav", "rf.wav"),
        (".bashrc", "bashrc"),
        ("con.wav", "file_con.wav"),
        ("", "file"),
        ("...", "file"),
        ("x.wav\n", "x.wav"),
        ("two\x00parts.wav", "two_parts.wav"),
    ],
)
def test_names_become_safe_and_stay_readable(name: str, safe: str) -> None:
    assert safe_file_name(name) == safe


@given(st.text(max_size=300))
def test_any_name_becomes_one_plain_name(name: str) -> None:
    safe = safe_file_name(name)
    assert safe == Path(safe).name and safe not in ("", ".", "..")
    assert not safe.startswith((".", "-")) and len(safe.encode()) <= 120
    assert safe_file_name(safe) == safe


def test_files_are_stored_under_safe_names_and_their_own_are_remembered(project: Project, tmp_path: Path) -> None:
    sources = [(file(tmp_path, b"1", "x1"), "../Take 1.wav"), (file(tmp_path, b"2", "x2"), "take_1.WAV")]
    stored = store_uploads(project, sources)
    assert [upload.file.name for upload in stored] == ["Take_1.wav", "take_1-2.wav"]
    assert [upload.file.read_bytes() for upload in stored] == [b"1", b"2"]
    assert stored[0].file.is_relative_to(project.folder)
    names = json.loads((stored[0].file.parent / "names.json").read_text(encoding="utf-8"))
    assert names == {"Take_1.wav": "../Take 1.wav", "take_1-2.wav": "take_1.WAV"}


def test_a_file_cannot_take_the_place_of_the_list_of_names(project: Project, tmp_path: Path) -> None:
    (stored,) = store_uploads(project, [(file(tmp_path, b"{}"), "names.json")])
    assert stored.file.name == "names-2.json"


def test_the_quota_counts_everything_uploaded_before(project: Project, tmp_path: Path) -> None:
    source = file(tmp_path, b"x" * 600)
    store_uploads(project, [(source, "a.wav")], quota_bytes=1000)
    before = uploaded_bytes(project)
    with pytest.raises(UserError, match="does not fit"):
        store_uploads(project, [(source, "b.wav")], quota_bytes=1000)
    assert uploaded_bytes(project) == before


def test_a_disk_that_would_be_full_is_refused(project: Project, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(uploads, "KEPT_FREE_BYTES", 2**60)
    with pytest.raises(UserError, match="GB free"):
        store_uploads(project, [(file(tmp_path, b"x"), "a.wav")])
    assert uploaded_bytes(project) == 0


def test_links_and_missing_files_are_refused_and_nothing_is_stored(project: Project, tmp_path: Path) -> None:
    good, link = file(tmp_path, b"x"), tmp_path / "link"
    link.symlink_to("/etc/passwd")
    for bad in (link, tmp_path / "none", tmp_path):
        with pytest.raises(UserError, match="gone"):
            store_uploads(project, [(good, "a.wav"), (bad, "b.wav")])
    assert uploaded_bytes(project) == 0
