"""Tables are read in every layout people use, and broken ones are refused with the line."""

from pathlib import Path

import pytest

from utils.dataset.table import read_table
from utils.errors import UserError

ROWS = [("a.wav", "Hello, you.", "anna"), ("b.wav", "Good bye!", "ben")]


def _table(folder: Path, content: str | bytes) -> Path:
    path = folder / "metadata.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "content",
    [
        "audio_file|text|speaker_name\na.wav|Hello, you.|anna\nb.wav|Good bye!|ben\n",
        'audio_file,text,speaker_name\na.wav,"Hello, you.",anna\nb.wav,Good bye!,ben\n',
        "audio_file;text;speaker_name\na.wav;Hello, you.;anna\nb.wav;Good bye!;ben",
        "audio_file\ttext\tspeaker_name\r\na.wav\tHello, you.\tanna\r\nb.wav\tGood bye!\tben\r\n",
        "\ufeffaudio_file|text|speaker_name\na.wav|Hello, you.|anna\n\nb.wav|Good bye!|ben\n   \n",
        "Speaker_Name| TEXT |Audio_File\nanna|Hello,   you.|a.wav\nben|Good bye!|b.wav\n",
        "audio_file|text|speaker_name|notes|notes\na.wav|Hello, you.|anna||\nb.wav|Good bye!|ben|x|y\n",
    ],
    ids=["pipe", "comma", "semicolon", "tab", "byte order mark", "other order", "more columns"],
)
def test_tables_with_a_header(tmp_path: Path, content: str) -> None:
    rows = read_table(_table(tmp_path, content))
    assert [(row.audio, row.text, row.speaker) for row in rows] == ROWS


def test_a_table_without_speakers_has_one_speaker(tmp_path: Path) -> None:
    rows = read_table(_table(tmp_path, "audio_file|text\na.wav|Hello.\nb.wav|Bye.\n"))
    assert [row.speaker for row in rows] == ["speaker", "speaker"]


def test_ljspeech_takes_the_normalised_text_where_there_is_one(tmp_path: Path) -> None:
    rows = read_table(_table(tmp_path, 'LJ1|He paid $5.|He paid five dollars.\nLJ2|"Well," she said.|\nLJ3|Yes.\n'))
    assert [(row.audio, row.text) for row in rows] == [
        ("LJ1", "He paid five dollars."),
        ("LJ2", '"Well," she said.'),
        ("LJ3", "Yes."),
    ]


@pytest.mark.parametrize("text", ["NA", "null", "nan", "007", "1e5", "True", "=SUM(A1)", "#N/A"])
def test_text_stays_text(tmp_path: Path, text: str) -> None:
    assert read_table(_table(tmp_path, f"audio_file|text\na.wav|{text}\nb.wav|x\n"))[0].text == text
    assert read_table(_table(tmp_path, f"a|{text}|{text}\nb|x|x\n"))[0].text == text


def test_characters_are_composed_as_vocabularies_hold_them(tmp_path: Path) -> None:
    assert read_table(_table(tmp_path, "audio_file|text\na.wav|cafe\u0301\n"))[0].text == "café"


def test_rows_know_their_line(tmp_path: Path) -> None:
    rows = read_table(_table(tmp_path, 'audio_file|text\n\na.wav|"two\nlines"\nb.wav|x\n'))
    assert [(row.line, row.text) for row in rows] == [(3, "two lines"), (5, "x")]


@pytest.mark.parametrize(
    ("content", "message", "place"),
    [
        ("", "the table is empty", ""),
        ("\n \n", "the table is empty", ""),
        ("file|transcript\na.wav|x\n", "no columns audio_file and text", "line 1"),
        ("audio_file|speaker_name\na.wav|x\n", "no columns audio_file and text", "line 1"),
        ("a.wav,Hello\nb.wav,Bye\n", "no columns audio_file and text", "line 1"),
        ('audio_file|text\na.wav|"open\nb.wav|x\n', "quoting is broken", "line 2"),
        ('audio_file|text\na.wav|x\nb.wav|"Yes," he said\n', "quoting is broken", "line 3"),
        ("audio_file|text\na.wav|x\nb.wav|one|two\n", "3 fields instead of 2", "line 3"),
        ("audio_file|text|speaker_name\na.wav|x\n", "2 fields instead of 3", "line 2"),
        ("a|x|y\nb|one|two|three\n", "4 fields instead of 2 or 3", "line 2"),
        ("a|one|anna\nb|two|anna\n", "'anna' in every row", ""),
        (b"audio_file|text\na.wav|x\nb.wav|caf\xe9\n", "not UTF-8", "line 3"),
        ("audio_file|text\na.wav|x\n".encode("utf-16"), "not UTF-8", "line 1"),
        ("audio_file|text\na.wav|x\0y\n", "NUL", "line 2"),
        ("audio_file|text\na.wav|" + "x" * 200_000 + "\n", "field larger than", "line 2"),
    ],
)
def test_broken_tables_are_refused_with_the_line(
    tmp_path: Path, content: str | bytes, message: str, place: str
) -> None:
    path = _table(tmp_path, content)
    with pytest.raises(UserError, match=message) as caught:
        read_table(path)
    assert caught.value.where.startswith(str(path))
    assert place in caught.value.where
    assert caught.value.fix


def test_a_missing_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_table(tmp_path / "none.csv")
