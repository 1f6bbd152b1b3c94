"""A file is read once, and again when anything about it changed, however well that is hidden."""

import os
import time
from pathlib import Path

import pytest
import soundfile

from tests.clip_tables import cache_codes
from tests.sounds import speech
from utils.audio.write import write_wav
from utils.bases.find import find_base
from utils.dataset.storage import stamps
from utils.errors import UserError
from utils.training.data import codes as audio_files
from utils.training.data.codes import AudioFiles

SECONDS = 1.5


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    write_wav(tmp_path / "clip.wav", speech(SECONDS, seed=1), 22_050)
    return tmp_path / "clip.wav"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that are read; stamps are trusted at once."""
    monkeypatch.setattr(stamps, "_RACY_NS", -1)
    names: list[str] = []
    read = audio_files.read_facts
    monkeypatch.setattr(audio_files, "read_facts", lambda path: names.append(path.name) or read(path))
    return names


def _facts(clip: Path) -> audio_files.AudioFacts:
    """As a run asks for them."""
    files = AudioFiles(clip.parent / "codes")
    found = files.facts(clip)
    files.save()
    return found


def _write_in_place(clip: Path, seed: int) -> None:
    """Another sound of the same size in the same file, its time of modification put back."""
    before = clip.stat()
    # So that the clock of the file system has moved on.
    time.sleep(0.05)
    write_wav(clip.with_name("other.wav"), speech(SECONDS, seed=seed), 22_050)
    with clip.open("r+b") as file:
        file.write(clip.with_name("other.wav").read_bytes())
    os.utime(clip, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = clip.stat()
    assert (after.st_size, after.st_mtime_ns, after.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)


def test_a_file_is_read_once_for_all_runs(clip, reads):
    first = _facts(clip)
    assert (first.num_samples, first.is_native) == (round(SECONDS * 22_050), True)
    assert _facts(clip) == first and reads == ["clip.wav"]


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps no time of a file's last change of status")
def test_another_sound_of_the_same_size_and_time_is_noticed(clip, reads):
    first = _facts(clip)
    _write_in_place(clip, seed=2)
    assert _facts(clip).content != first.content
    assert reads == ["clip.wav", "clip.wav"]


def test_a_file_that_was_written_just_now_is_read_again(clip, monkeypatch):
    _facts(clip)
    names: list[str] = []
    read = audio_files.read_facts
    monkeypatch.setattr(audio_files, "read_facts", lambda path: names.append(path.name) or read(path))
    _facts(clip)
    assert names == ["clip.wav"], "its stamp is too young to be trusted"


def test_what_a_kill_left_of_the_list_costs_only_its_own_lines(clip, reads):
    second = clip.with_name("second.flac")
    soundfile.write(second, speech(1.0)[0].numpy(), 44_100)
    whole = [_facts(path) for path in (clip, second)]
    assert whole[1].is_native is False and whole[1].num_samples == 11_025
    kept = clip.parent / "codes" / "files.jsonl"
    kept.write_text('[1]\n{"file": 3}\nno line of ours\n' + kept.read_text()[:-20])
    reads.clear()
    assert [_facts(path) for path in (clip, second)] == whole
    assert reads == ["second.flac"]


def test_a_changed_clip_gets_new_codes_and_an_unchanged_one_is_not_opened(clip, reads):
    base, folder = find_base("tiny"), clip.parent / "codes"
    same = clip.with_name("same.wav")
    write_wav(same, speech(1.0, seed=5), 22_050)
    first = {path: codes.tolist() for path, codes in cache_codes([clip, same], base, folder).items()}
    write_wav(clip, speech(SECONDS, seed=4), 22_050)
    reads.clear()
    again = {path: codes.tolist() for path, codes in cache_codes([clip, same], base, folder).items()}
    assert reads == ["clip.wav"]
    assert again[same] == first[same] and again[clip] != first[clip] and len(again[clip]) == len(first[clip])


def test_a_file_that_is_gone_is_named(tmp_path):
    with pytest.raises(UserError, match=r"gone\.wav is missing"):
        AudioFiles(tmp_path / "codes").facts(tmp_path / "gone.wav")


def test_a_folder_that_cannot_be_written_only_keeps_nothing(clip, monkeypatch):
    def refused(path: Path) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(audio_files, "now_ns", refused)
    assert _facts(clip).num_samples == round(SECONDS * 22_050)
    assert not (clip.parent / "codes" / "files.jsonl").exists()
