"""Tables, names and files of other programs and systems are read, and all is accounted for."""

import json
import os
import re
from pathlib import Path

import pytest
import soundfile

from tests.audio.signals import encode, tone
from tests.dataset.recordings import config, fix_clip, make_source, read_source
from tests.dataset.sources.test_read import _faults, _touch
from utils.audio.decode import decode
from utils.dataset.build import prepare
from utils.dataset.segmentation.long_audio import LongAudio
from utils.dataset.sources.recording import ReadOptions
from utils.dataset.storage.report import Report
from utils.errors import UserError
from utils.project.paths import open_project

HELLO, BYE = "Hello, you.", "Good bye!"
TABLES = {
    "common voice": (
        "validated.tsv",
        "client_id\tpath\tsentence\tage\tlocale\nann\tone.mp3\tHello, you.\t\ten\nann\ttwo.mp3\tGood bye!\t\ten\n",
        ("clips/one.mp3", "clips/two.mp3"),
    ),
    "audiofolder": (
        "metadata.csv",
        'file_name,transcription\ntrain/one.wav,"Hello, you."\ntrain/two.wav,Good bye!\n',
        ("train/one.wav", "train/two.wav"),
    ),
    "gpt-sovits": (
        "ann.list",
        "D:\\voices\\ann\\one.wav|ann|EN|Hello, you.\nD:\\voices\\ann\\two.wav|ann|en|Good bye!\n",
        ("wavs/one.wav", "wavs/two.wav"),
    ),
    "windows paths": (
        "metadata.csv",
        "audio_file|text\nC:\\Users\\ann\\wavs\\one.wav|Hello, you.\nC:/Users/ann/wavs/two.wav|Good bye!\n",
        ("wavs/one.wav", "wavs/two.wav"),
    ),
    "colab paths": (
        "metadata.csv",
        "audio_file|text\n/content/drive/ds/wavs/one.wav|Hello, you.\n/content/drive/ds/wavs/two.wav|Good bye!\n",
        ("one.wav", "two.wav"),
    ),
    "cleaned names": (
        "metadata.csv",
        "audio_file|text\ntake #1 [soft] 😀.wav|Hello, you.\nÜnï – code&=@.WAV|Good bye!\n",
        ("wavs/take 1 soft .wav", "wavs/Ünï  code.wav"),
    ),
    "converted recordings": (
        "metadata.csv",
        "audio_file|text\nC:\\\\data\\\\wavs\\\\one.wav|Hello, you.\ntwo.mp3|Good bye!\n",
        ("wavs/one.flac", "wavs/two.wav"),
    ),
    "tortoise": ("train.txt", "wavs/1.wav|Hello, you.\nwavs/2.wav|Good bye!\n", ("wavs/1.wav", "wavs/2.wav")),
    "a list with a header": (
        "train_list.txt",
        "audio_file|text|speaker_name\n1.wav|Hello, you.|0\n2.wav|Good bye!|0\n",
        ("wavs/1.wav", "wavs/2.wav"),
    ),
    "two columns of a spreadsheet": ("metadata.csv", "one\tHello, you.\r\ntwo\tGood bye!\r\n", ("one.wav", "two.wav")),
    "css10": ("transcript.txt", f"w/1.wav|Hello|{HELLO}|1.23\nw/2.wav|Bye|{BYE}|2.5\n", ("w/1.wav", "w/2.wav")),
    "a list in a folder of its own": (
        "filelists/train.txt",
        "wavs/1.wav|Hello, you.|0\nwavs/2.wav|Good bye!|0\n".replace("|0", ""),
        ("wavs/1.wav", "wavs/2.wav"),
    ),
    "columns with blanks": (
        "table.csv",
        "File Name;Transcript;Speaker\n1.wav;Hello, you.;Ann\n2.wav;Good bye!;Ann\n",
        ("1.wav", "2.wav"),
    ),
    "cut names": (
        "metadata.csv",
        f"audio_file|text\n{'long ' * 60}1.wav|Hello, you.\ntwo.wav|Good bye!\n",
        (f"{'long ' * 29}.wav", "two.wav"),
    ),
    "trailing dots and case": (
        "metadata.csv",
        "audio_file|text\nOne...wav|Hello, you.\nTWO|Good bye!\n",
        ("one.wav", "two.wav"),
    ),
}


def test_a_recording_of_the_folder_above_is_taken_by_its_whole_name_alone(tmp_path):
    _touch(tmp_path, "day/table.csv", "wavs/one.wav", "two.wav")
    (tmp_path / "day" / "table.csv").write_text("audio_file|text\none.wav|Hello, you.\ntwo.wav|Good bye!\n")
    reading = ReadOptions(long_audio=LongAudio(kept=tmp_path / ".kept"), language="en")
    found = {one.text: one for one in read_source(tmp_path, reading)}
    assert "missing file" in str(found["Hello, you."].fault)
    assert found["Good bye!"].fault is None and found["Good bye!"].audio == tmp_path / "two.wav"


@pytest.mark.parametrize("kind", TABLES)
def test_tables_of_other_programs_and_systems_name_their_recordings(tmp_path, kind):
    name, content, recordings = TABLES[kind]
    _touch(tmp_path, name, *recordings)
    (tmp_path / name).write_bytes(content.encode())
    reading = ReadOptions(long_audio=LongAudio(kept=tmp_path / ".kept"), language="en")
    found = read_source(tmp_path, reading)
    assert [(clip.audio, clip.text, clip.fault) for clip in found] == [
        (tmp_path / path, text, None) for path, text in zip(recordings, (HELLO, BYE), strict=True)
    ]
    is_moved = kind in ("gpt-sovits", "windows paths", "colab paths")
    assert sum("of another computer" in note for note in reading.notes) == is_moved
    is_renamed = kind in ("cleaned names", "converted recordings", "cut names", "trailing dots and case")
    assert sum("have other names" in note for note in reading.notes) == is_renamed


KALDI = {
    "wav.scp": "a wavs/a.wav\nb flac -c -d -s /data/wavs/b.flac |\nc wavs/none.wav\nd wavs/a.wav\nd sox x.wav - |\n",
    "text": "a Hello, you.\nb\tGood  bye!\nc Not here.\nx Nowhere.\n",
    "utt2spk": "a ann\nb ben\ny eve\n",
}


def test_every_line_of_a_kaldi_folder_is_used_or_named(tmp_path):
    _touch(tmp_path, "wavs/a.wav", "wavs/b.flac")
    for name, content in KALDI.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "feats.scp").write_text("a feats.ark:2\n")
    (tmp_path / "spk2utt").write_text("ann a\n")
    reading = ReadOptions(long_audio=LongAudio(kept=tmp_path / ".kept"))
    found = read_source(tmp_path, reading)
    assert [(clip.audio.name, clip.text, clip.speaker) for clip in found if not clip.fault] == [
        ("a.wav", HELLO, "ann"),
        ("b.flac", BYE, "ben"),
        ("a.wav", "", "speaker"),
    ]
    faults = "\n".join(clip.fault.detail for clip in found if clip.fault)
    for line in ("scp line 3 names", "scp line 5 names 'sox", "text line 4: no other line", "utt2spk line 3: no other"):
        assert faults.count(line) == 1, faults
    assert len(faults.splitlines()) == 4
    assert {Path(name).name: kind for name, kind in reading.ignored.items()} == {
        "feats.scp": "a list of no recordings",
        "spk2utt": "text",
    }


@pytest.mark.parametrize(
    "command", ["flac -c --skip=9 wavs/b.flac |", "flac -c wavs/b.flac | sox - -t wav - speed 2 |", "cat wavs/b.flac |"]
)
def test_a_command_that_may_change_the_sound_names_no_recording(tmp_path, command):
    _touch(tmp_path, "wavs/b.flac")
    (tmp_path / "wav.scp").write_text(f"b {command}\n")
    (tmp_path / "text").write_text("b Good bye!\n")
    found = read_source(tmp_path)
    assert (
        [clip.fault.reason for clip in found if clip.fault]
        == ["missing file", "no transcript"]
        == [clip.fault.reason for clip in found]
    )


def test_what_whisper_recognized_replaces_neither_a_text_nor_subtitles(tmp_path):
    recognized = json.dumps([{"start": 0, "end": 0.2, "text": "Help o."}])
    for name, other in (("one", "one.txt"), ("two", "two.en.srt")):
        soundfile.write(tmp_path / f"{name}.wav", tone(1, 22_050)[0].numpy(), 22_050)
        (tmp_path / f"{name}.json").write_text(recognized)
        (tmp_path / other).write_text(HELLO if other == "one.txt" else f"1\n00:00:00,000 --> 00:00:00,200\n{HELLO}\n")
    assert [(clip.origin.split(",")[0], clip.text) for clip in read_source(tmp_path)] == [
        ("one.txt", HELLO),
        ("two.en.srt", HELLO),
    ]


def test_kaldis_segments_are_parts_of_recordings_that_lie_elsewhere_in_the_input(tmp_path):
    _touch(tmp_path, "wavs/talk.wav")
    (tmp_path / "data/train").mkdir(parents=True)
    segments = "t1 talk 0.00 1.5\nt2 talk 2 3.25\nt3 talk 9 8\nt4 lost 1 2\nt5 talk one two\nt6 talk 9 -1\n"
    texts = "".join(f"t{number} Text {number}.\n" for number in range(1, 7))
    for name, content in (("wav.scp", "talk wavs/talk.wav\n"), ("segments", segments), ("text", texts)):
        (tmp_path / "data/train" / name).write_text(content)
    found = read_source(tmp_path)
    assert [(clip.text, clip.start_s, clip.end_s) for clip in found if not clip.fault] == [
        ("Text 1.", 0.0, 1.5),
        ("Text 2.", 2.0, 3.25),
        ("Text 6.", 9.0, None),
    ]
    assert [clip.fault.reason for clip in found if clip.fault] == ["unreadable row"] + ["missing file"] * 2


def test_text_of_an_old_code_page_is_read_where_its_letters_show_it(tmp_path):
    _touch(tmp_path, "one.wav", "two.wav")
    for name in ("one", "two"):
        (tmp_path / f"{name}.TXT").write_bytes("Доброе утро, друзья!".encode("cp1251"))
    reading = ReadOptions(long_audio=LongAudio(kept=tmp_path / ".kept"), language="ru")
    assert [clip.text for clip in read_source(tmp_path, reading)] == ["Доброе утро, друзья!"] * 2
    assert reading.notes == ["texts that are not Unicode were read as cp1251; --encoding names another"]
    reading = ReadOptions(long_audio=LongAudio(kept=tmp_path / ".kept"), language="en")
    assert all("not UTF-8" in clip.fault.detail for clip in read_source(tmp_path, reading) if clip.fault)
    assert reading.notes == []


def test_a_recording_that_another_row_names_is_not_taken_for_a_renamed_one(tmp_path):
    _touch(tmp_path, "take 1.wav", "b c.wav", "other.wav")
    (tmp_path / "metadata.csv").write_text("audio_file|text\ntake #1.wav|A.\ntake 1.wav|B.\nb#c.wav|C.\nb&c.wav|D.\n")
    found = read_source(tmp_path)
    assert [clip.text for clip in found if not clip.fault] == ["B."]
    assert [clip.fault.reason for clip in found if clip.fault] == ["missing file"] * 3 + ["no transcript"] * 2


def test_a_recording_with_the_rows_own_ending_is_preferred_to_a_converted_one(tmp_path):
    _touch(tmp_path, "take 1.wav", "take 1.mp3")
    (tmp_path / "metadata.csv").write_text("audio_file|text\ntake #1.wav|A.\n")
    assert _faults(read_source(tmp_path)) == {"take 1.wav": "", "take 1.mp3": "no transcript"}


def test_the_language_file_of_a_dataset_is_no_transcript(tmp_path):
    _touch(tmp_path, "wavs/one.wav")
    (tmp_path / "metadata_train.csv").write_text("audio_file|text|speaker_name\nwavs/one.wav|Hello.|coqui\n")
    (tmp_path / "lang.txt").write_text("en")
    reading = ReadOptions(long_audio=LongAudio(kept=tmp_path / ".kept"))
    assert _faults(read_source(tmp_path, reading)) == {"one.wav": ""}
    assert list(reading.ignored.items()) == [(str(tmp_path / "lang.txt"), "the language of a prepared dataset")]


def test_a_text_with_a_bar_beside_its_recording_is_no_list(tmp_path):
    _touch(tmp_path, "one.wav", "two.wav")
    (tmp_path / "one.txt").write_text("two.wav | is what I say here.")
    (tmp_path / "two.txt").write_text("Good bye!")
    assert [clip.text for clip in read_source(tmp_path)] == ["two.wav | is what I say here.", "Good bye!"]


def test_rows_in_another_language_are_reported(tmp_path):
    _touch(tmp_path, "a.wav", "b.wav", "c.wav")
    (tmp_path / "x.list").write_text("a.wav|ann|JA|Hello.\nb.wav|ann|EN|Hello.\nc.wav|ann|auto|Hello.\n")
    reading = ReadOptions(long_audio=LongAudio(kept=tmp_path / ".kept"), language="en")
    assert _faults(read_source(tmp_path, reading)) == {"a.wav": "other language", "b.wav": "", "c.wav": ""}


def test_libritts_has_its_text_in_normalized_files(tmp_path):
    _touch(tmp_path, "84/121/84_121_1.wav", "84/121/84_121_2.wav")
    (tmp_path / "84/121/84_121_1.normalized.txt").write_text("He paid five dollars.")
    (tmp_path / "84/121/84_121_1.original.txt").write_text("He paid $5.")
    (tmp_path / "84/121/84_121_2.lab").write_text("Bye.")
    assert [(clip.text, clip.fault) for clip in read_source(tmp_path)] == [
        ("He paid five dollars.", None),
        ("Bye.", None),
    ]


def test_every_file_of_a_folder_is_used_reported_or_ignored_by_content(tmp_path):
    wav = tone(1, 16_000)
    for name, container, codec, rate in (
        ("a.m4b", "ipod", "aac", 16_000),
        ("b.3gp", "3gp", "aac", 16_000),
        ("c.mka", "matroska", "aac", 16_000),
        ("d.wma", "asf", "libmp3lame", 44_100),
        ("no ending", "matroska", "aac", 16_000),
        ("e.backup", "mp3", "libmp3lame", 44_100),
    ):
        encode(tmp_path / name, wav, rate, codec=codec, container=container)
    soundfile.write(tmp_path / "f.caf", wav[0].numpy(), 16_000)
    (tmp_path / "g.amr").write_bytes(b"#!AMR\n" + b"\x3c" + bytes(31))
    for name, content in (
        *(
            ("photo.jpg", b"\xff\xd8\xff\xe0"),
            ("notes.md", b"# Notes"),
            ("paper.pdf", b"%PDF-1.7"),
            ("nothing.bin", b""),
        ),
        *(("data.bin", b"\x00\x01\x02" * 99), ("tool", b"\x7fELF")),
    ):
        (tmp_path / name).write_bytes(content)
    os.mkfifo(tmp_path / "pipe.wav")
    (tmp_path / "folder.wav").mkdir()
    reading = ReadOptions(long_audio=LongAudio(kept=tmp_path / ".kept"))
    found = read_source(tmp_path, reading)
    recordings = ["a.m4b", "b.3gp", "c.mka", "d.wma", "e.backup", "f.caf", "g.amr", "no ending"]
    assert sorted(clip.audio.name for clip in found) == recordings
    assert {Path(name).name: kind for name, kind in reading.ignored.items()} == {
        **{"photo.jpg": "image", "notes.md": "text", "paper.pdf": "PDF", "nothing.bin": "empty", "data.bin": "unknown"},
        **{"tool": "program", "pipe.wav": "not a regular file"},
    }
    for name in recordings:
        assert decode(tmp_path / name)[0].shape[1] > 0


def test_ignored_files_and_notes_are_in_report_and_page(tmp_path):
    source = make_source(tmp_path / "in", 3)
    (source / "cover.png").write_bytes(b"\x89PNG\r\n")
    table = source / "metadata.csv"
    table.write_text(table.read_text().replace("wavs/", "D:\\mine\\wavs\\"))
    report = prepare(config(source, tmp_path / "out", workers=1))
    folder = tmp_path / "out" / "voice" / "dataset"
    assert Report.load(folder / "report.json") == report and report.totals["ignored"] == 1
    for shown in (report.table(), (folder / "report.html").read_text()):
        assert "cover.png" in shown and "image" in shown and "3 rows have a path of another computer" in shown
    # A later fix keeps them.
    fix_clip(open_project("voice", tmp_path / "out"), "exclude", report.used[0].id)
    assert Report.load(folder / "report.json").ignored == report.ignored


ADVICE = {
    "comma without header": "one.wav,Hello\ntwo.wav,Bye\n",
    "five tabs": "one.wav\tHello\tann\tx\ty\ntwo.wav\tBye\tann\tx\ty\n",
    "speakers second": "one.wav|ann|Hello there, you\ntwo.wav|ann|Good bye to all\n",
}


@pytest.mark.parametrize("kind", ADVICE)
def test_who_follows_the_advice_of_the_reader_is_read(tmp_path, kind):
    _touch(tmp_path, "one.wav", "two.wav")
    (tmp_path / "metadata.csv").write_text(ADVICE[kind])
    with pytest.raises(UserError) as caught:
        read_source(tmp_path)
    (header,) = re.findall(r"\S*audio_file\S*", caught.value.fix)
    (tmp_path / "metadata.csv").write_text(header.replace("<TAB>", "\t") + "\n" + ADVICE[kind])
    found = read_source(tmp_path)
    assert [clip.text.split()[0] for clip in found] == ["Hello", "Bye" if "Bye" in ADVICE[kind] else "Good"]
    assert [clip.fault for clip in found] == [None, None]


def test_who_renames_the_columns_as_told_is_read(tmp_path):
    _touch(tmp_path, "one.wav")
    (tmp_path / "metadata.csv").write_text("id,words\none.wav,Hello\n")
    with pytest.raises(UserError, match="no columns") as caught:
        read_source(tmp_path)
    assert "call the column of file names audio_file and that of transcripts text" in caught.value.fix
    (tmp_path / "metadata.csv").write_text("audio_file,text\none.wav,Hello\n")
    assert [clip.text for clip in read_source(tmp_path)] == ["Hello"]
