"""Uploads lie in their project under names that lead nowhere else, within quota and disk, all or none."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from utils.dataset.sources.intake import add_uploads, safe_name
from utils.errors import UserError
from utils.project import uploads
from utils.project.paths import Project
from utils.project.uploads import uploaded_bytes


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "output" / "voice").mkdir(parents=True)
    return Project(name="voice", output=tmp_path / "output")


def file(folder: Path, content: bytes, name: str = "a.wav") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


HOSTILE = ["../../etc/passwd", "C:\\Users\\x\\..\\voice.wav", "a;rm -rf $HOME`x`|y.wav", ".bashrc", "..", "x\x00y.wav"]


@pytest.mark.parametrize("name", [*HOSTILE, "<img src=x onerror=alert(1)>.srt", "...", "", "/", "x.wav\n"])
def test_hostile_names_become_plain_ones(name):
    safe = safe_name(name)
    assert not set(safe) & set("/\\<>;|`$\x00\n") and not safe.startswith(".")


@pytest.mark.parametrize("name", ["con.wav", "NUL.txt", "com1.tar.gz", "Lpt9.csv", "com¹.wav", "con .wav"])
def test_a_name_that_windows_keeps_for_a_device_is_mended(name):
    assert safe_name(name).startswith("_")
    assert safe_name(f"x{name}").startswith("x")


@given(st.text(max_size=300))
def test_any_name_becomes_one_plain_name(name):
    safe = safe_name(name)
    assert safe == Path(safe).name and safe not in ("", ".", "..")
    assert len(safe.encode()) <= 255


def test_the_quota_counts_everything_uploaded_before(project, tmp_path):
    add_uploads(project, [file(tmp_path, b"x" * 600)], quota_bytes=1000)
    assert uploaded_bytes(project) == 600
    with pytest.raises(UserError, match="does not fit"):
        add_uploads(project, [file(tmp_path, b"x" * 600, "b.wav")], quota_bytes=1000)
    assert uploaded_bytes(project) == 600


def test_a_disk_that_would_be_full_is_refused(project, tmp_path, monkeypatch):
    monkeypatch.setattr(uploads, "KEPT_FREE_BYTES", 2**60)
    with pytest.raises(UserError, match="GB free"):
        add_uploads(project, [file(tmp_path, b"x")])
    assert uploaded_bytes(project) == 0


def test_links_and_missing_files_are_refused_and_nothing_is_stored(project, tmp_path):
    good, link = file(tmp_path, b"x"), tmp_path / "link.wav"
    link.symlink_to("/etc/passwd")
    for bad in (link, tmp_path / "none.wav"):
        with pytest.raises(UserError, match="is missing"):
            add_uploads(project, [good, bad])
    assert uploaded_bytes(project) == 0 and good.is_file()
