"""An archive cannot write outside its folder, fill the disk or stop anything but itself."""

import stat
import unicodedata
import zipfile
from pathlib import Path

import pytest

from utils.dataset.formats import archive
from utils.dataset.formats.archive import unpack
from utils.errors import UserError


def _zip(path: Path, members: dict[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def test_recordings_texts_and_tables_are_unpacked_once(tmp_path):
    source = _zip(
        tmp_path / "my voice.zip", {"a/x.wav": b"sound", "a/x.srt": b"text", "a/x.exe": b"no", "__MACOSX/._x.wav": b""}
    )
    folder = unpack(source, tmp_path / "into")
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    assert names == ["a/x.exe", "a/x.srt", "a/x.wav"]
    (folder / "a" / "x.srt").write_text("mine")
    (folder / "a" / "x.exe").unlink()  # as earlier versions left it
    assert unpack(source, tmp_path / "into") == folder and (folder / "a" / "x.srt").read_text() == "mine"


@pytest.mark.parametrize(
    "name", ["../x.wav", "a/../../x.wav", "/etc/x.wav", "C:/x.wav", "..\\x.wav", "a\\..\\..\\x.wav"]
)
def test_names_that_lead_outside_are_refused(tmp_path, name):
    with pytest.raises(UserError, match="names a file outside itself"):
        unpack(_zip(tmp_path / "a.zip", {"ok.wav": b"1", name: b"2"}), tmp_path / "into")
    assert not (tmp_path / "into").exists()


def test_links_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        member = zipfile.ZipInfo("link.wav")
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(member, "/etc/passwd")
    with pytest.raises(UserError, match="holds a link"):
        unpack(tmp_path / "a.zip", tmp_path / "into")


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    with pytest.raises(UserError, match="times its size"):
        unpack(_zip(tmp_path / "a.zip", {"a.wav": bytes(30 * 2**20)}), tmp_path / "into")


def test_too_many_members_and_too_many_bytes(tmp_path, monkeypatch):
    source = _zip(tmp_path / "a.zip", {f"{n}.wav": b"12345" for n in range(5)})
    monkeypatch.setattr(archive, "MAX_MEMBERS", 4)
    with pytest.raises(UserError, match="holds 5 files, more than 4"):
        unpack(source, tmp_path / "into")
    monkeypatch.setattr(archive, "MAX_MEMBERS", 5)
    monkeypatch.setattr(archive, "MAX_BYTES", 24)
    with pytest.raises(UserError, match="unpacks to"):
        unpack(source, tmp_path / "into")


def test_a_size_that_is_a_lie_is_noticed(tmp_path):
    content = _zip(tmp_path / "a.zip", {"a.wav": b"x" * 5_000}, method=zipfile.ZIP_STORED).read_bytes()
    (tmp_path / "b.zip").write_bytes(content.replace((5_000).to_bytes(4, "little"), (50).to_bytes(4, "little")))
    with pytest.raises(UserError):
        unpack(tmp_path / "b.zip", tmp_path / "into")
    assert not list((tmp_path / "into").glob("*")), "nothing half unpacked stays"


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut", b"no zip at all" * 99])
def test_what_is_no_zip_is_refused(tmp_path, content):
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(UserError, match="cannot be unpacked"):
        unpack(tmp_path / "a.zip", tmp_path / "into")


def test_damaged_data_is_refused(tmp_path):
    source = _zip(tmp_path / "a.zip", {"a.wav": bytes(range(256)) * 99}, method=zipfile.ZIP_STORED)
    content = bytearray(source.read_bytes())
    content[2_000] ^= 255
    source.write_bytes(content)
    with pytest.raises(UserError, match="cannot be unpacked"):
        unpack(source, tmp_path / "into")


def test_names_that_windows_cannot_have_are_mended(tmp_path):
    folder = unpack(_zip(tmp_path / "a.zip", {"a?b/con.wav": b"1", "c. /d.wav": b"2"}), tmp_path / "into")
    assert sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.wav")) == ["a_b/_con.wav", "c/d.wav"]


def test_two_files_of_one_name_are_refused(tmp_path):
    with pytest.raises(UserError, match="two files of the same name"):
        unpack(_zip(tmp_path / "a.zip", {"a.wav": b"1", "A.WAV": b"2"}), tmp_path / "into")


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("utf-8", "日本語"),
        ("cp866", "Привет мир"),
        ("cp932", "録音その一"),
        ("cp850", "Jürgen Müller"),
        ("cp1252", "naïve façade"),
        ("utf-8 decomposed", "Jürgen é"),
    ],
)
def test_names_without_the_flag_are_those_of_the_table(tmp_path, page, name):
    stored = unicodedata.normalize("NFD", name) if "decomposed" in page else name
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        for content, ending in ((b"sound", ".wav"), (b"other", " 2.wav")):
            member = zipfile.ZipInfo(ending[1] * len(f"{stored}{ending}".encode(page.split()[0])))
            file.writestr(member, content)
        file.writestr("metadata.csv", f"audio_file|text\n{name}.wav|Hello.\n{name} 2.wav|Bye.\n")
    raw = (tmp_path / "a.zip").read_bytes()
    for ending in (".wav", " 2.wav"):
        encoded = f"{stored}{ending}".encode(page.split()[0])
        raw = raw.replace(ending[1].encode() * len(encoded), encoded)
    (tmp_path / "a.zip").write_bytes(raw)
    notes: list[str] = []
    folder = unpack(tmp_path / "a.zip", tmp_path / "into", notes)
    assert {path.name for path in folder.iterdir()} == {f"{name}.wav", f"{name} 2.wav", "metadata.csv"}
    assert (folder / f"{name} 2.wav").read_bytes() == b"other"
    assert notes == [f"a.zip: 2 names were read as {page.split()[0]}"]


def test_names_that_fit_no_table_are_named_with_what_was_tried(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("xxxx.wav", b"sound")
        file.writestr("metadata.csv", "audio_file|text\nother.wav|Hello.\n")
    raw = (tmp_path / "a.zip").read_bytes().replace(b"xxxx", b"\x8f\xe0\xa8\xa2")
    (tmp_path / "a.zip").write_bytes(raw)
    notes: list[str] = []
    unpack(tmp_path / "a.zip", tmp_path / "into", notes)
    assert len(notes) == 1 and "cp866" in notes[0] and "cp932" in notes[0]
