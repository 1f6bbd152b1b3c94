"""Every layout gives the same recordings, every file is accounted for, and nothing outside the folder is touched."""

from pathlib import Path

import pytest

from tests.dataset.sources import make_source
from utils.dataset.sources import Recording, read_source
from utils.errors import UserError


def _touch(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def _faults(recordings: list[Recording]) -> dict[str, str]:
    return {recording.audio.name: recording.fault.reason if recording.fault else "" for recording in recordings}


def test_a_folder_with_metadata(tmp_path: Path) -> None:
    recordings = read_source(make_source(tmp_path, 3))
    assert [recording.audio.name for recording in recordings] == ["demo-01.flac", "demo-02.flac", "demo-03.flac"]
    assert recordings[0].text == "Good morning, everyone!"
    assert recordings[0].speaker == "demo"
    assert all(recording.audio.is_absolute() and not recording.fault for recording in recordings)


def test_the_path_of_the_table_gives_its_rows(tmp_path: Path) -> None:
    source = make_source(tmp_path, 3)
    _touch(source, "wavs/unlisted.wav")
    assert len(read_source(source / "metadata.csv")) == 3


def test_a_table_of_any_name_when_it_is_the_only_one(tmp_path: Path) -> None:
    source = make_source(tmp_path, 2)
    (source / "metadata.csv").rename(source / "my voice.csv")
    assert len(read_source(source)) == 2


def test_metadata_csv_comes_before_other_tables(tmp_path: Path) -> None:
    source = make_source(tmp_path, 2)
    (source / "a.csv").write_text("other\n")
    assert len(read_source(source)) == 2


def test_several_tables_need_a_choice(tmp_path: Path) -> None:
    _touch(tmp_path, "a.csv", "b.csv")
    with pytest.raises(UserError, match=r"several tables: a\.csv, b\.csv"):
        read_source(tmp_path)


def test_recordings_with_text_files_of_the_same_name(tmp_path: Path) -> None:
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


def test_every_row_and_every_recording_is_accounted_for(tmp_path: Path) -> None:
    source = make_source(tmp_path, 1)
    _touch(source, "wavs/unlisted.wav")
    with (source / "metadata.csv").open("a") as table:
        table.write("gone.wav|Hello.|demo\n|No name.|demo\n" + "x" * 500 + "|Too long a name.|demo\n")
    reasons = [recording.fault.reason if recording.fault else "" for recording in read_source(source)]
    assert reasons == ["", "missing file", "missing file", "missing file", "no transcript"]
    missing = read_source(source)[1].fault
    assert missing is not None
    assert missing.detail == "metadata.csv, line 3 names 'gone.wav', which is not there"


@pytest.mark.parametrize(
    "name", ["../secret.wav", "wavs/../../secret.wav", "{outside}", "link.wav", "linked/secret.wav"]
)
def test_paths_that_lead_out_of_the_folder_are_not_followed(tmp_path: Path, name: str) -> None:
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


def test_links_out_of_a_folder_of_pairs_are_not_followed(tmp_path: Path) -> None:
    outside = _touch(tmp_path, "secret.wav") / "secret.wav"
    source = _touch(tmp_path / "in", "own.wav", "own.txt")
    (source / "link.wav").symlink_to(outside)
    (source / "link.txt").write_text("Hello.")
    assert _faults(read_source(source))["link.wav"] == "outside the folder"


def test_the_order_is_fixed(tmp_path: Path) -> None:
    _touch(tmp_path, *(f"{name}.{end}" for name in "ecabd" for end in ("wav", "txt")))
    assert [recording.audio.stem for recording in read_source(tmp_path)] == list("abcde")


@pytest.mark.parametrize("kind", ["missing", "empty", "no recordings", "audio file"])
def test_an_input_without_recordings_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "in"
    if kind == "audio file":
        path = _touch(tmp_path, "a.wav") / "a.wav"
    elif kind != "missing":
        _touch(path, *(["notes.txt"] if kind == "no recordings" else [".keep"]))
    with pytest.raises(UserError, match="the input") as caught:
        read_source(path)
    assert "metadata.csv" in caught.value.fix
