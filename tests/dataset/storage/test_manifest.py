"""What is written is read back, wherever the folder lies and whatever the text holds."""

import shutil
import unicodedata
from pathlib import Path

import pytest

from utils.dataset.storage.manifest import Clip, iter_manifest, read_manifest, write_manifest
from utils.errors import UserError

TEXTS = [
    "Plain.",
    'He said "yes", then left',
    '"Quoted at both ends"',
    '"',
    "a | b || c",
    "comma, semicolon; tab",
    "NA",
    "null",
    "=1+1",
    "ሰላም ለዓለም።",
    "مرحبا بالعالم؟",
    "नमस्ते दुनिया।",
    "你好，世界。",
    "emoji 🙂",
    "back\\slash",
    "#comment",
]


def _clips(folder: Path) -> list[Clip]:
    return [Clip(audio=folder / "wavs" / f"{n}.wav", text=t, speaker="anna|b") for n, t in enumerate(TEXTS)]


def test_every_text_survives(tmp_path):
    write_manifest(tmp_path / "m.csv", _clips(tmp_path))
    assert read_manifest(tmp_path / "m.csv") == _clips(tmp_path)


def test_word_times_survive(tmp_path):
    timed = Clip(audio=tmp_path / "a.wav", text="two words", speaker="anna", word_times=(0.0, 0.312))
    clips = [timed, Clip(audio=tmp_path / "b.wav", text="none here", speaker="anna")]
    write_manifest(tmp_path / "m.csv", clips)
    assert (tmp_path / "m.csv").read_text().splitlines()[:2] == [
        "audio_file|text|speaker_name|word_times",
        "a.wav|two words|anna|0.000 0.312",
    ]
    assert read_manifest(tmp_path / "m.csv") == clips


def test_the_file_is_what_the_contract_says(tmp_path):
    write_manifest(tmp_path / "m.csv", [Clip(audio=tmp_path / "wavs" / "ä.wav", text="Grüß Gott", speaker="anna")])
    assert (tmp_path / "m.csv").read_bytes() == "audio_file|text|speaker_name\nwavs/ä.wav|Grüß Gott|anna\n".encode()


SPOKEN = ['"Wait for me', "he said. And then", 'nothing," she said."', '"Whole ""and"" doubled"', "He said so."]


@pytest.mark.parametrize("read", [read_manifest, iter_manifest])
def test_a_row_is_a_line_and_a_line_that_is_no_row_is_named(tmp_path, read):
    header, *rows = ["audio_file|text|speaker_name", *(f"{n}.wav|{text}|anna" for n, text in enumerate(SPOKEN))]
    (tmp_path / "m.csv").write_text("\r\n".join([header, *rows, ""]))
    texts = [*SPOKEN[:3], 'Whole "and" doubled', SPOKEN[4]]
    assert [(clip.audio.name, clip.text) for clip in read(tmp_path / "m.csv")] == [
        (f"{n}.wav", text) for n, text in enumerate(texts)
    ]
    (tmp_path / "m.csv").write_text("\n".join([header, rows[0], "and that is all", *rows[1:], ""]))
    with pytest.raises(UserError, match=r"m\.csv, line 3"):
        list(read(tmp_path / "m.csv"))


def test_the_folder_can_be_moved(tmp_path):
    (tmp_path / "old").mkdir()
    write_manifest(tmp_path / "old" / "m.csv", _clips(tmp_path / "old"))
    shutil.move(tmp_path / "old", tmp_path / "new")
    assert read_manifest(tmp_path / "new" / "m.csv") == _clips(tmp_path / "new")


def test_recordings_elsewhere_are_reached_by_a_relative_path(tmp_path):
    (tmp_path / "lists").mkdir()
    clip = Clip(audio=tmp_path / "sounds" / "a.wav", text="x", speaker="y")
    write_manifest(tmp_path / "lists" / "m.csv", [clip])
    assert [c.audio.resolve() for c in read_manifest(tmp_path / "lists" / "m.csv")] == [clip.audio.resolve()]


def test_a_relative_manifest_gives_absolute_paths(tmp_path, monkeypatch):
    write_manifest(tmp_path / "m.csv", _clips(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert read_manifest(Path("m.csv")) == _clips(tmp_path)


@pytest.mark.parametrize("name", ["LJ001-0001", "LJ001-0001.flac", "wavs/LJ001-0001.flac", "wavs\\LJ001-0001.flac"])
def test_recordings_are_found_with_or_without_folder_and_ending(tmp_path, name):
    (tmp_path / "wavs").mkdir()
    (tmp_path / "wavs" / "LJ001-0001.flac").touch()
    (tmp_path / "metadata.csv").write_text(f"{name}|One.|One.\n")
    assert read_manifest(tmp_path / "metadata.csv")[0].audio == tmp_path / "wavs" / "LJ001-0001.flac"


@pytest.mark.parametrize("written", ["café", "हिन्दी", "が"])
@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
def test_accents_match_however_the_system_writes_them(tmp_path, written, forms):
    in_table, on_disk = (unicodedata.normalize(form, written) for form in forms)
    (tmp_path / "wavs").mkdir()
    audio = tmp_path / "wavs" / f"{on_disk}.wav"
    audio.touch()
    for name in (in_table, f"{in_table}.wav", f"wavs/{in_table}.wav"):
        (tmp_path / "metadata.csv").write_text(f"{name}|One.|One.\n", encoding="utf-8")
        assert read_manifest(tmp_path / "metadata.csv")[0].audio == audio


def test_an_empty_manifest_is_a_header(tmp_path):
    write_manifest(tmp_path / "m.csv", [])
    assert read_manifest(tmp_path / "m.csv") == []
