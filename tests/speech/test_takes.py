"""Takes on disk: complete, found by name only inside their project, and readable whatever lies beside them."""

import json
import wave
from pathlib import Path

import pytest

from utils.errors import UserError
from utils.options import SpeechSettings
from utils.speech.takes import Line, TakeSentence, find_take, join_wavs, list_takes, new_take, read_take


def make(project, texts=("one", "two"), **fields):
    return new_take(
        project, list(texts), model="base/tiny", settings=SpeechSettings(temperature=0.3, seed=None), **fields
    )


def test_a_take_reads_as_it_was_saved(project):
    take = make(project, ("ein Wort", "ቃል"))
    spoken = TakeSentence(text="ቃል", file="0002-001.wav", audio_s=1.5, took_s=0.5, finished=False)
    line = Line(number=2, text="ቃል", state="finished", file="0002.wav", sentences=(spoken,))
    take = take.with_line(line).changed(state="finished", message="note")
    take.save()
    assert read_take(take.folder) == take == find_take(project, take.id)
    assert take.audio_s == 1.5 and take.wavs == [take.folder / "0002.wav"]


def test_the_reference_is_kept_with_the_take(project, tmp_path):
    recording = tmp_path / "My voice ; rm -rf.WAV"
    recording.write_bytes(b"sound")
    take = make(project, reference=recording, reference_name="My <voice>.WAV")
    recording.unlink()
    assert (take.folder / take.reference).read_bytes() == b"sound"
    assert (take.reference, take.reference_name) == ("reference.wav", "My <voice>.WAV")
    with pytest.raises(UserError, match="audio is missing"):
        make(project, reference=recording)


def test_spoiled_takes_are_left_out_of_the_list(project):
    takes = [make(project) for _ in range(3)]
    (takes[1].folder / "take.json").write_text("{", encoding="utf-8")
    (takes[0].folder.parent / "notes").mkdir()
    assert [take.id for take in list_takes(project)] == [takes[2].id, takes[0].id]
    assert [take.id for take in list_takes(project, limit=1)] == [takes[2].id]
    with pytest.raises(UserError, match="cannot be read"):
        read_take(takes[1].folder)


def test_a_take_of_a_process_that_is_gone_reads_as_cut(project):
    take = make(project).changed(owner={"pid": 1, "create_time": 1.0, "boot_time": 0.0, "boot_id": None})
    take.save()
    assert read_take(take.folder).state == "cut"


def test_unknown_fields_of_a_newer_version_are_passed_over(project):
    take = make(project)
    path = take.folder / "take.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"stars": 5}), encoding="utf-8")
    assert read_take(take.folder) == take


@pytest.mark.parametrize("name", ["..", "../voice", "/etc", "a/b", "a\\b", "", "x" * 65])
def test_only_names_of_takes_are_looked_up(project, name):
    with pytest.raises(UserError):
        find_take(project, name)


def test_a_link_is_no_take(project, tmp_path):
    take = make(project)
    (take.folder.parent / "link").symlink_to(take.folder)
    with pytest.raises(UserError, match="no take"):
        find_take(project, "link")


def write(path: Path, value: bytes, frames: int) -> Path:
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(24_000)
        out.writeframes(value * frames)
    return path


def test_joined_wavs_hold_every_sample_in_order(tmp_path):
    parts = [write(tmp_path / f"{n}.wav", bytes([n, 0]), 70_000 + n) for n in range(3)]
    join_wavs(parts, tmp_path / "all.wav")
    with wave.open(str(tmp_path / "all.wav")) as joined:
        frames = joined.readframes(joined.getnframes())
    assert frames == b"".join(bytes([n, 0]) * (70_000 + n) for n in range(3))
    (tmp_path / "1.wav").unlink()
    with pytest.raises(FileNotFoundError):
        join_wavs(parts, tmp_path / "again.wav")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.wav", "2.wav", "all.wav"]
