"""Every layout gives the same recordings, every file is accounted for, and nothing outside the folder is touched."""

import os
import zipfile
from pathlib import Path

import pytest

from tests.dataset.recordings import make_source, read_source
from utils.dataset.segmentation.long_audio import LongAudio
from utils.dataset.sources.recording import ReadOptions, Recording
from utils.errors import UserError


def _touch(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"RIFF" if name.lower().endswith((".wav", ".flac", ".mp3", ".ogg")) else b"")
    return folder


def _faults(recordings: list[Recording]) -> dict[str, str]:
    return {recording.audio.name: recording.fault.reason if recording.fault else "" for recording in recordings}


def test_the_path_of_the_table_gives_its_rows(tmp_path):
    source = make_source(tmp_path, 3)
    _touch(source, "wavs/unlisted.wav")
    assert len(read_source(source / "metadata.csv")) == 3


def _table(path: Path, *rows: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("audio_file|text\n" + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def _told(recordings: list[Recording]) -> list[tuple[str, str, str]]:
    """File, origin and reason of each."""
    return [(r.audio.name, r.origin, r.fault.reason if r.fault else "") for r in recordings]


def test_all_tables_of_a_folder_are_read_and_every_row_is_accounted_for(tmp_path):
    _touch(tmp_path, "wavs/one.wav", "wavs/two.wav", "wavs/three.wav", "notes.txt")
    _table(tmp_path / "a.csv", "one.wav|One.", "gone.wav|Gone.")
    _table(tmp_path / "b.csv", "two.wav|Two.")
    recordings = read_source(tmp_path)
    assert _told(recordings) == [
        ("one.wav", "a.csv, line 2", ""),
        ("gone.wav", "a.csv, line 3", "missing file"),
        ("two.wav", "b.csv, line 2", ""),
        ("three.wav", "", "no transcript"),
        ("notes.txt", "", "no recording"),
    ]
    assert recordings[3].fault and recordings[3].fault.detail.startswith("none of a.csv, b.csv has a row for it")


def test_metadata_csv_comes_before_other_tables(tmp_path):
    _touch(tmp_path, "one.wav")
    _table(tmp_path / "a.csv", "one.wav|Older words.")
    _table(tmp_path / "metadata.csv", "one.wav|Newer words.")
    assert [recording.text for recording in read_source(tmp_path)] == ["Newer words.", "Older words."]


@pytest.mark.parametrize("name, content", [("a.csv", "other\n"), ("a.csv", ""), ("a.jsonl", '{"kind": "step"}\n' * 9)])
def test_a_table_that_cannot_be_read_costs_only_itself(tmp_path, name, content):
    source = make_source(tmp_path, 2)
    (source / name).write_text(content)
    recordings = read_source(source)
    assert _faults(recordings) == {"demo-01.flac": "", "demo-02.flac": "", name: "unreadable input"}
    assert recordings[2].fault and ("line 1" in recordings[2].fault.detail) == bool(content)


def test_no_table_that_can_be_read_is_a_fault_of_the_input(tmp_path):
    _touch(tmp_path, "a.wav", "a.csv", "b.csv")
    with pytest.raises(UserError, match="the table is empty"):
        read_source(tmp_path)


def test_tables_in_subfolders_speak_for_their_own_recordings(tmp_path):
    """As a zip of several folders holds them, whatever their tables are called."""
    _table(tmp_path / "monday" / "list.csv", "one.wav|One.")
    _table(tmp_path / "tuesday" / "list.csv", "two.wav|Two.", "../monday/three.wav|Three.", "../../x.wav|No.")
    _touch(tmp_path, "monday/one.wav", "monday/three.wav", "tuesday/two.wav", "alone.wav", "said.wav")
    (tmp_path / "said.txt").write_text("Said.")
    assert _told(read_source(tmp_path)) == [
        ("one.wav", "list.csv, line 2", ""),
        ("two.wav", "list.csv, line 2", ""),
        ("three.wav", "list.csv, line 3", ""),
        ("x.wav", "list.csv, line 4", "outside the folder"),
        ("alone.wav", "", "no transcript"),
        ("said.wav", "said.txt", ""),
    ]


def test_a_table_in_a_subfolder_that_is_a_link_out_of_the_folder_is_not_read(tmp_path):
    secret = _table(tmp_path / "secret.csv", "a.wav|A secret.")
    source = _touch(tmp_path / "in", "own.wav", "deep/a.wav")
    (source / "own.txt").write_text("Hello.")
    (source / "deep" / "list.csv").symlink_to(secret)
    found = read_source(source)
    assert _faults(found) == {"own.wav": "", "a.wav": "no transcript", "list.csv": "unreadable input"}
    assert not any("secret" in recording.text for recording in found)


def test_a_table_that_is_not_read_is_told_of(tmp_path):
    source = make_source(tmp_path, 1)
    for name in ("train.tsv", "validated.tsv", "invalidated.tsv"):
        (source / name).write_text(f"client_id\tpath\tsentence\nann\t{name}.mp3\tHello.\n")
    reading = ReadOptions(long_audio=LongAudio(kept=tmp_path / ".kept"))
    assert list(_faults(read_source(source, reading))) == ["demo-01.flac", "validated.tsv.mp3"]
    assert [(Path(name).name, why) for name, why in reading.ignored.items()] == [
        ("invalidated.tsv", "a table of what Common Voice did not accept, or of no clips"),
        ("train.tsv", "its clips are in validated.tsv"),
    ]


def test_recordings_with_text_files_of_the_same_name(tmp_path):
    _touch(tmp_path, "one.wav", "deep/two.MP3", "three.flac")
    (tmp_path / "one.txt").write_text("Hello\n  there.\n", encoding="utf-8-sig")
    (tmp_path / "deep" / "two.txt").write_text("Bye.")
    (tmp_path / "three.txt").write_bytes(b"caf\xe9")
    (tmp_path / "four.txt").write_text("No sound.")
    _touch(tmp_path, "five.ogg", ".hidden.wav", ".cache/six.wav", "picture.png")
    recordings = read_source(tmp_path)
    assert {r.audio.name: r.text for r in recordings if not r.fault} == {"one.wav": "Hello there.", "two.MP3": "Bye."}
    assert _faults(recordings) == {
        "one.wav": "",
        "two.MP3": "",
        "three.flac": "no transcript",
        "four.txt": "no recording",
        "five.ogg": "no transcript",
    }


def test_every_row_and_every_recording_is_accounted_for(tmp_path):
    source = make_source(tmp_path, 1)
    _touch(source, "wavs/unlisted.wav")
    with (source / "metadata.csv").open("a") as table:
        table.write("gone.wav|Hello.|demo\n|No name.|demo\n" + "x" * 500 + "|Too long a name.|demo\n")
    reasons = [recording.fault.reason if recording.fault else "" for recording in read_source(source)]
    assert reasons == ["", "missing file", "missing file", "missing file", "no transcript"]
    missing = read_source(source)[1].fault
    assert missing is not None
    assert missing.detail.startswith("metadata.csv, line 3 names 'gone.wav', which is missing; tried gone.wav, wavs/")


@pytest.mark.parametrize(
    "name", ["../secret.wav", "wavs/../../secret.wav", "{outside}", "link.wav", "linked/secret.wav"]
)
def test_paths_that_lead_out_of_the_folder_are_not_followed(tmp_path, name):
    outside = _touch(tmp_path, "secret.wav") / "secret.wav"
    source = make_source(tmp_path / "in", 1)
    (source / "link.wav").symlink_to(outside)
    (source / "linked").symlink_to(tmp_path)
    with (source / "metadata.csv").open("a") as table:
        table.write(f"{name.format(outside=outside)}|Hello.|demo\n")
    assert read_source(source / "metadata.csv")[1].fault is not None
    assert (
        _faults(read_source(source / "metadata.csv"))[Path(name.format(outside=outside)).name] == "outside the folder"
    )


def test_links_out_of_a_folder_of_pairs_are_not_followed(tmp_path):
    outside = _touch(tmp_path, "secret.wav") / "secret.wav"
    source = _touch(tmp_path / "in", "own.wav", "own.txt")
    (source / "link.wav").symlink_to(outside)
    (source / "link.txt").write_text("Hello.")
    assert _faults(read_source(source))["link.wav"] == "outside the folder"


@pytest.mark.parametrize("name", ["wavs/a.wav", "a", "wavs/deep/b.wav"])
def test_a_wavs_folder_on_another_disk_belongs_to_the_folder_it_is_linked_in(tmp_path, name):
    disk = _touch(tmp_path / "disk", "a.wav", "deep/b.wav")
    source = _touch(tmp_path / "in", "metadata.csv")
    (source / "wavs").symlink_to(disk)
    (source / "metadata.csv").write_text(f"audio_file|text\n{name}|Hello.\n")
    assert read_source(source)[0].fault is None
    assert sorted(_faults(read_source(source)).values()) == ["", "no transcript"], "the other one is accounted for too"


def test_pairs_in_a_linked_folder_are_read(tmp_path):
    disk = _touch(tmp_path / "disk", "a.wav")
    (disk / "a.txt").write_text("Hello.")
    source = _touch(tmp_path / "in", "own.wav", "own.txt")
    (source / "more").symlink_to(disk)
    assert _faults(read_source(source)) == {"a.wav": "", "own.wav": ""}


def test_what_leads_out_of_a_linked_folder_is_not_followed(tmp_path):
    secret = _touch(tmp_path / "private", "secret.wav") / "secret.wav"
    disk = _touch(tmp_path / "disk", "a.wav")
    (disk / "out.wav").symlink_to(secret)
    (disk / "further").symlink_to(tmp_path / "private")
    source = _touch(tmp_path / "in", "deep/.keep")
    (source / "wavs").symlink_to(disk)
    (source / "deep" / "wavs").symlink_to(disk)
    names = ["out.wav", "wavs/further/secret.wav", "wavs/../private/secret.wav", "deep/wavs/a.wav", str(disk / "a.wav")]
    (source / "metadata.csv").write_text("audio_file|text\n" + "".join(f"{name}|Hello.\n" for name in names))
    found = read_source(source / "metadata.csv")
    reasons = [recording.fault.reason if recording.fault else "" for recording in found]
    assert reasons == ["outside the folder"] * 5
    assert found[0].fault and "add a link to its folder directly below" in found[0].fault.detail


def test_a_text_file_that_leads_out_of_the_folder_is_not_read(tmp_path):
    (tmp_path / "secret.txt").write_text("A secret.")
    source = _touch(tmp_path / "in", "a.wav")
    (source / "a.txt").symlink_to(tmp_path / "secret.txt")
    (found,) = read_source(source)
    assert found.fault and found.fault.reason == "outside the folder" and not found.text


def test_a_link_to_itself_is_a_fault_of_its_clip(tmp_path):
    source = _touch(tmp_path, "own.wav")
    (source / "loop.wav").symlink_to(source / "loop.wav")
    (source / "own.txt").symlink_to(source / "own.txt")
    assert _faults(read_source(source)) == {"own.wav": "no transcript", "loop.wav": "missing file"}


def test_an_input_that_is_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(UserError, match="the input"):
        read_source(tmp_path / "loop")


def test_a_file_name_that_is_not_utf8_is_a_fault_of_its_clip(tmp_path):
    source = _touch(tmp_path, "own.wav", "own.txt")
    for name in (b"caf\xe9.wav", b"caf\xe9.txt"):
        (source / os.fsdecode(name)).write_text("Hello.")
    (fault,) = (recording.fault for recording in read_source(source) if recording.audio.name != "own.wav")
    assert fault and fault.reason == "unreadable audio"
    assert fault.detail == "caf\\xe9.wav is not a UTF-8 name; rename the file"


def test_the_order_is_fixed(tmp_path):
    _touch(tmp_path, *(f"{name}.{end}" for name in "ecabd" for end in ("wav", "txt")))
    assert [recording.audio.stem for recording in read_source(tmp_path)] == list("abcde")


def test_an_input_without_recordings_is_refused(tmp_path):
    for path in (_touch(tmp_path, "a.png") / "a.png", _touch(tmp_path / "in", "notes.txt")):
        with pytest.raises(UserError, match="the input") as caught:
            read_source(path)
        assert "metadata.csv" in caught.value.fix


def test_nothing_stays_unpacked_of_an_archive_in_which_nothing_can_be_used(tmp_path):
    archive, kept = tmp_path / "texts.zip", tmp_path / "kept"
    reading = ReadOptions(long_audio=LongAudio(kept=kept))
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("more/1.srt", "")
        file.writestr("metadata.csv", "gone.wav|Some words.\n")
    recordings = read_source(archive, reading)
    assert recordings and all(recording.fault for recording in recordings)
    assert not list(kept.iterdir())
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("one.exe", "")
    with pytest.raises(UserError, match="no recordings"):
        read_source(archive, reading)
    assert not list(kept.iterdir())


def test_an_empty_file_lacks_its_sound_rather_than_its_transcript(tmp_path):
    source = _touch(make_source(tmp_path, 1), "wavs/silent.wav")
    (source / "wavs" / "empty.wav").touch()
    (source / "metadata.csv").unlink()
    faults = _faults(read_source(source))
    assert faults["empty.wav"] == "unreadable audio" and faults["silent.wav"] == "no transcript"
