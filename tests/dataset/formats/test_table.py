"""Tables are read in every layout people use, and broken ones are refused with the line."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from utils.dataset.formats import textfile
from utils.dataset.formats.table import iter_table
from utils.dataset.formats.table import read_table as read
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
def test_tables_with_a_header(tmp_path, content):
    rows = read(_table(tmp_path, content))
    assert [(row.audio, row.text, row.speaker) for row in rows] == ROWS


def test_ljspeech_takes_the_normalised_text_where_there_is_one(tmp_path):
    rows = read(_table(tmp_path, 'LJ1|He paid $5.|He paid five dollars.\nLJ2|"Well," she said.|\nLJ3|Yes.\n'))
    assert [(row.audio, row.text) for row in rows] == [
        ("LJ1", "He paid five dollars."),
        ("LJ2", '"Well," she said.'),
        ("LJ3", "Yes."),
    ]


@pytest.mark.parametrize("text", ["NA", "null", "nan", "007", "1e5", "True", "=SUM(A1)", "#N/A"])
def test_text_stays_text(tmp_path, text):
    assert read(_table(tmp_path, f"audio_file|text\na.wav|{text}\nb.wav|x\n"))[0].text == text
    assert read(_table(tmp_path, f"a|{text}|{text}\nb|x|x\n"))[0].text == text


def test_characters_are_composed_as_vocabularies_hold_them(tmp_path):
    assert read(_table(tmp_path, "audio_file|text\na.wav|cafe\u0301\n"))[0].text == "café"


@pytest.mark.parametrize(
    ("content", "message", "place"),
    [
        ("", "the table is empty", ""),
        ("\n \n", "the table is empty", ""),
        ("file|gender\na.wav|x\n", "no columns audio_file and text", "line 1"),
        ("audio_file|speaker_name\na.wav|x\n", "no columns audio_file and text", "line 1"),
        ("a.wav,Hello\nb.wav,Bye\n", "no columns audio_file and text", "line 1"),
        ("audio_file|text\na.wav|x\nb.wav|one|two\n", "3 fields instead of 2", "line 3"),
        ("audio_file|text|speaker_name\na.wav|x\n", "2 fields instead of 3", "line 2"),
        ("a|x|y\nb|one|two|three\n", "4 fields instead of 2 or 3", "line 2"),
        (b"audio_file|text\na.wav|x\nb.wav|caf\xe9\n", "not UTF-8", "line 3"),
        ("audio_file|text\na.wav|x\0y\n", "NUL", "line 2"),
        ("audio_file|text|word_times\na.wav|x y|0.0 half\n", "write seconds", "line 2"),
        ("audio_file|text|word_times\na.wav|x y|0.5 0.2\n", "not ascending", "line 2"),
        ("audio_file|text|word_times\na.wav|x y|0.5 nan\n", "not ascending", "line 2"),
    ],
)
def test_broken_tables_are_refused_with_the_line(tmp_path, content, message, place):
    path = _table(tmp_path, content)
    with pytest.raises(UserError, match=message) as caught:
        read(path)
    assert caught.value.where.startswith(str(path))
    assert place in caught.value.where
    assert caught.value.fix


SPOKEN = ["Good morning, everyone!", "It cost $5 in 1800.", "The train leaves at 7.", "Yes.", "Who is there?", "No."]
SPEAKERS: dict[str, list[tuple[str, str]]] = {
    "one speaker": [(text, "anna") for text in SPOKEN],
    "two speakers": [(text, "anna" if index % 2 else "ben") for index, text in enumerate(SPOKEN)],
    "a speaker a row": [(text, f"speaker_{index}") for index, text in enumerate(SPOKEN)],
    "two rows": [("Good morning, everyone!", "anna"), ("It is late.", "ben")],
    "one row": [("Good morning, everyone!", "anna")],
    "some without a name": [(text, "anna" if index % 3 else "") for index, text in enumerate(SPOKEN)],
    "Chinese": [("我们去公园吧。", "anna"), ("今天天气很好。", "ben"), ("你好，世界。", "anna"), ("好的。", "ben")],
    "Amharic": [("ሰላም ለዓለም።", "abebe"), ("እንዴት ነህ?", "sara"), ("ደህና ነኝ።", "abebe"), ("አመሰግናለሁ።", "sara")],
}
NORMALIZED: dict[str, list[tuple[str, str]]] = {
    "numbers in words": [("It cost $5 in 1800.", "It cost five dollars in eighteen hundred."), ("Yes.", "Yes.")],
    "numbers only": [("1984", "nineteen eighty four"), ("5", "five"), ("42", "forty two")],
    "titles": [("Mr. Smith met Dr. Lee.", "mister smith met doctor lee"), ("St. 5", "street five")],
    "the same text": [("Yes!", "yes"), ("Yes?", "yes"), ("Yes.", "yes"), ("No.", "no")],
    "digits twice": [("1", "one"), ("one", "one"), ("One!", "one"), ("2", "two")],
    "without accents": [("Être là, déjà vu.", "etre la deja vu"), ("Ça va?", "ca va")],
    "pinyin": [("我们去公园吧。", "wo3 men5 qu4 gong1 yuan2 ba5"), ("你好。", "ni3 hao3")],
    "Chinese": [("我有5个苹果。", "我有五个苹果。"), ("你好。", "你好。")],
    "Japanese": [("私は学生です。", "わたしはがくせいです。"), ("3時です。", "さんじです。")],
    "Korean": [("나는 5살이다.", "나는 다섯 살이다."), ("네.", "네.")],
    "Hindi": [("मेरे पास 5 सेब हैं।", "मेरे पास पाँच सेब हैं"), ("नमस्ते।", "नमस्ते")],
    "Arabic": [("لدي 5 كتب.", "لدي خمسة كتب"), ("العَرَبية", "العربية")],
    "Russian": [("Там было 50 солдат.", "там было пятьдесят солдат"), ("Ещё 1.", "еще один")],
}


def _without_header(folder: Path, pairs: list[tuple[str, str]]) -> Path:
    return _table(folder, "".join(f"clip{index}|{text}|{third}\n" for index, (text, third) in enumerate(pairs)))


@pytest.mark.parametrize("kind", SPEAKERS)
def test_speakers_are_not_taken_for_transcripts(tmp_path, kind):
    path = _without_header(tmp_path, SPEAKERS[kind])
    with pytest.raises(UserError, match="speakers, not the normalized text of LJSpeech") as caught:
        read(path)
    assert caught.value.where.startswith(f"{path}, line ")
    assert caught.value.fix == "begin the file with the line audio_file|text|speaker_name"


@pytest.mark.parametrize("kind", NORMALIZED)
def test_normalised_text_of_any_script_is_used(tmp_path, kind):
    pairs = NORMALIZED[kind]
    assert [row.text for row in read(_without_header(tmp_path, pairs))] == [third for _, third in pairs]


@pytest.mark.parametrize("blank", ["\u00a0", "\u3000", "\f", '""', '" "', " \t "])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_lines_without_content_are_skipped(tmp_path, blank, place):
    lines = ["audio_file|text", "a.wav|Hello.", "b.wav|Bye."]
    lines.insert(place, blank)
    rows = read(_table(tmp_path, "\n".join(lines)))
    assert [(row.audio, row.text) for row in rows] == [("a.wav", "Hello."), ("b.wav", "Bye.")]
    assert [row.line for row in rows] == [index for index, line in enumerate(lines, 1) if ".wav" in line]


@pytest.mark.parametrize("header", ["text|text.2", "text|text", "text|text.3|text", "text||"])
def test_of_columns_with_one_name_the_first_counts(tmp_path, header):
    cells = "|".join(["Hello.", "other", "more"][: header.count("|") + 1])
    rows = read(_table(tmp_path, f"audio_file|{header}\na.wav|{cells}\n"))
    assert [(row.audio, row.text, row.speaker) for row in rows] == [("a.wav", "Hello.", "speaker")]


def test_a_table_larger_than_people_write_is_read_row_by_row(tmp_path, monkeypatch):
    path = _table(tmp_path, "audio_file|text\na.wav|x\nb.wav|y\n")
    monkeypatch.setattr(textfile, "MAX_BYTES", 10)
    with pytest.raises(UserError, match="no table of clips"):
        read(path)
    assert [row.text for row in iter_table(path)] == ["x", "y"]


def test_a_fault_far_into_a_file_is_found_at_its_line(tmp_path):
    rows = "".join(f"{number}.wav|text {number}\n" for number in range(60_000))
    path = _table(tmp_path, f"audio_file|text\n{rows}".encode() + b"z.wav|caf\xe9\n")
    with pytest.raises(UserError, match="not UTF-8") as caught:
        read(path)
    assert caught.value.where == f"{path}, line 60002"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('a.wav,"He said ""wait"", and left.",ann', 'He said "wait", and left.'),
        ('a.wav, "Hello, you" ,ann', "Hello, you"),
        ('"a.wav","Hello","ann"', "Hello"),
        ('a.wav,"Yes" he said,ann', '"Yes" he said'),
        ('a.wav,"One" and "two",ann', '"One" and "two"'),
        ("a.wav,Hello,ann,,", "Hello"),
    ],
)
def test_a_field_is_quoted_only_where_it_begins_and_ends_so(tmp_path, line, text):
    rows = read(_table(tmp_path, f"audio_file,text,speaker_name\n{line}\nb.wav,Bye,ann\n"))
    assert (rows[0].audio, rows[0].text, rows[0].speaker) == ("a.wav", text, "ann")


def test_a_quoted_text_of_several_lines_is_one_row_and_says_so(tmp_path):
    content = 'audio_file,text,speaker_name\na.wav,"Hello,\nwell, my friend\n\nof old",ann\nb.wav,Bye,ann\n'
    first, second = read(_table(tmp_path, content))
    assert (first.text, first.speaker, first.place) == ("Hello, well, my friend of old", "ann", "lines 2 to 5, joined")
    assert (second.audio, second.place) == ("b.wav", "line 6")


@pytest.mark.parametrize("first", ["sep=;", "# my voice", "#", "\ufeffsep=;"])
def test_what_programs_write_before_a_header_is_no_row(tmp_path, first):
    (tmp_path / "m.csv").write_text(f"{first}\naudio_file;text\n#1.wav;Hello.\n", encoding="utf-8")
    assert [(row.line, row.audio, row.text) for row in read(tmp_path / "m.csv")] == [(3, "#1.wav", "Hello.")]


cells = st.text(alphabet='ab "', max_size=6).map(str.strip)


@given(
    st.lists(st.tuples(cells, st.booleans()), min_size=1, max_size=12),
    st.sampled_from("|,;\t"),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_every_line_is_a_row_whatever_marks_it_holds(tmp_path_factory, rows, separator, line_end):
    lines, texts = [separator.join(("audio_file", "text", "speaker_name"))], []
    for number, (text, is_quoted) in enumerate(rows):
        shown = '"' + text.replace('"', '""') + '"' if is_quoted or re.fullmatch('"(?:[^"]|"")*"', text) else text
        lines.append(separator.join((f"{number}.wav", shown, "ann")))
        texts.append((f"{number}.wav", " ".join(text.split())))
    path = tmp_path_factory.getbasetemp() / "fuzz.csv"
    path.write_bytes(line_end.join(lines).encode())
    found = read(path)
    assert [(row.audio, row.text) for row in found] == texts


@given(st.lists(st.text(alphabet='a".,|\t', max_size=8), max_size=12))
def test_each_line_of_any_table_is_used_or_named(tmp_path_factory, damaged):
    whole = [f"{number}.wav|good|ann" for number in range(len(damaged) + 1)]
    lines = [
        "audio_file|text|speaker_name",
        *(line for pair in zip(whole, [*damaged, ""], strict=True) for line in pair),
    ]
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_text("\n".join(lines))
    rows = read(path)
    covered = {line for row in rows for line in range(row.line, max(row.line, row.last_line) + 1)}
    # A line of marks alone is empty.
    expected = {number for number, line in enumerate(lines, 1) if number > 1 and line.strip().strip('"').strip()}
    assert expected <= covered and len(covered) == sum(max(row.line, row.last_line) - row.line + 1 for row in rows)
    assert [row.audio for row in rows if not row.problem and row.text == "good"] == [
        line.split("|")[0] for line in whole
    ]
