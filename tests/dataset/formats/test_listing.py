"""A listing answers as the system does, and folders of many thousand files are read in time that grows with them."""

import os
import time
import unicodedata
from pathlib import Path

import pytest

from tests.dataset.recordings import read_source
from utils.dataset.formats.listing import Listing
from utils.dataset.storage.manifest import iter_manifest

MANY = 3_000


@pytest.fixture
def folder(tmp_path) -> Path:
    """Files, folders and links of every kind."""
    (tmp_path / "inner").mkdir()
    for name in ("a.wav", "inner/b.wav", ".hidden.wav", f"{unicodedata.normalize('NFD', 'café')}.wav"):
        (tmp_path / name).touch()
    links = {"file": "a.wav", "folder": "inner", "broken": "nowhere", "loop": "loop", "out": "..", "twice": "file"}
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    os.mkfifo(tmp_path / "pipe.wav")
    return tmp_path


QUESTIONS = [
    *("a.wav", "inner", "inner/b.wav", "file", "folder", "folder/b.wav", "broken", "loop", "out", "twice", "pipe.wav"),
    *("none.wav", "none/a.wav", "a.wav/b", "inner/../a.wav", "inner/..", ".", ".hidden.wav", "A.WAV", "", "x\0y.wav"),
    *("café.wav", "cafe\u0301.wav", "x" * 300, "y" * 5_000, "loop/a.wav"),
]


@pytest.mark.parametrize("name", QUESTIONS)
def test_it_answers_as_the_system_does(folder, name):
    files, path = Listing(), f"{folder}/{name}"
    assert files.is_file(path) == os.path.isfile(path)  # noqa: PTH113
    assert files.is_link(path) == os.path.islink(path)  # noqa: PTH114
    if "\0" not in name:
        try:
            expected = str(Path(path).resolve())
        except (OSError, RuntimeError):
            expected = None
        assert files.real(Path(path)) == expected


def test_folders_and_files_are_told_apart(folder):
    files = Listing()
    assert set(files.folders(str(folder))) == {"inner"}
    assert set(files.links(str(folder))) == {"file", "folder", "broken", "loop", "out", "twice"}
    assert {"a.wav", "pipe.wav", "file", "broken", "loop"} < set(files.names(str(folder)))
    assert not {"inner", "folder", "out", ".hidden.wav"} & set(files.names(str(folder)))


def test_files_of_one_stem_belong_together_however_their_accents_are_written(tmp_path):
    for name in ("talk.en.srt", "talk.srt", "talk.mp3", "other.srt", f"{unicodedata.normalize('NFD', 'é')}.vtt"):
        (tmp_path / name).touch()
    stems = Listing().by_stem(str(tmp_path), (".srt", ".vtt"))
    assert stems["talk"] == ["talk.en.srt", "talk.srt"] and stems["talk.en"] == ["talk.en.srt"]
    assert len(stems["é"]) == 1 and "talk.mp3" not in str(stems)


def _pairs(folder: Path) -> None:
    for number in range(MANY):
        (folder / f"clip{number}.txt").write_text(f"Row {number}.")


def _table(folder: Path) -> None:
    rows = (f"clip{number}.wav|Row {number}.|one\n" for number in range(MANY))
    (folder / "metadata.csv").write_text("audio_file|text|speaker_name\n" + "".join(rows))


@pytest.mark.parametrize("write", [_pairs, _table])
def test_a_folder_of_thousands_of_recordings_is_read_in_no_time(tmp_path, write):
    for number in range(MANY):
        (tmp_path / f"clip{number}.wav").touch()
    write(tmp_path)
    begin = time.process_time()
    found = read_source(tmp_path)
    # Of this process alone, whatever else the machine does: 0.2 s; asked for each pair of files, it would be 20 s.
    assert time.process_time() - begin < 4
    assert len(found) == MANY and not any(recording.fault for recording in found)
    assert {recording.text for recording in found} == {f"Row {number}." for number in range(MANY)}


def test_a_manifest_reads_each_folder_once(tmp_path, monkeypatch):
    (tmp_path / "wavs").mkdir()
    for number in range(MANY):
        (tmp_path / "wavs" / f"clip{number}.wav").touch()
    rows = (f"wavs/clip{number}.wav|Row {number}.|one\n" for number in range(MANY))
    (tmp_path / "metadata.csv").write_text("audio_file|text|speaker_name\n" + "".join(rows))
    read: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: read.append(str(folder)) or scandir(folder))
    monkeypatch.setattr(os.path, "isfile", None)
    clips = iter_manifest(tmp_path / "metadata.csv", Listing().is_file)
    assert [clip.audio.name for clip in clips] == [f"clip{number}.wav" for number in range(MANY)]
    assert read == [str(tmp_path / "wavs")]
