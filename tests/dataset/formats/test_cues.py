"""Every cue of a subtitle file comes back, as it is or with what is wrong with it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from utils.dataset.formats.cues import is_labels, parse_cues
from utils.errors import UserError

SRT = """1
00:00:01,000 --> 00:00:02,500
<i>Hello</i> there.

2
00:00:03,000 --> 00:00:04,000
Two
lines.
3
00:00:05,000 --> 00:00:06,000
No empty line before.

four
00:00:07 -> 00:00:08
Broken arrow.

5
00:00:0x,000 --> 00:00:09,000
Broken time.
"""

VTT = """WEBVTT - title

NOTE a comment

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start
<v Anna Bell>Good &amp; <c.loud>loud</c>.</v>

00:02.000 --> 00:03.000
<v Bob>One.</v> <v Cy>Two.</v>

00:03.000 --> 00:04.000
Three.
"""


def test_srt_cue_by_cue():
    cues = parse_cues(SRT, ".srt")
    assert [(c.start_s, c.end_s, c.text) for c in cues[:3]] == [
        (1.0, 2.5, "Hello there."),
        (3.0, 4.0, "Two lines."),
        (5.0, 6.0, "No empty line before."),
    ]
    assert [cue.place for cue in cues] == ["cue 1", "cue 2", "cue 3", "cue 4", "cue 5"]
    assert cues[3].fault == ("bad times", "it has no timing line") and "Broken arrow." in cues[3].text
    assert cues[4].fault.detail.startswith("its times cannot be read") and cues[4].text == "Broken time."


def test_voices_of_webvtt_are_speakers():
    first, second, third = parse_cues(VTT, ".vtt")
    assert (first.start_s, first.text, first.speaker) == (1.0, "Good & loud.", "Anna Bell")
    assert second.fault.detail == "several voices share its times: Bob, Cy"
    assert third.speaker == "speaker" and third.text == "Three."


def test_audacity_labels():
    content = "0.5\t1.5\tHello.\n\\\t100.0\t200.0\n1,5\t2\tBye.\n3\t4\n"
    assert is_labels(content) and not is_labels("Hello there.\n") and not is_labels("")
    assert [(c.start_s, c.end_s, c.text, c.place) for c in parse_cues(content, ".txt")] == [
        (0.5, 1.5, "Hello.", "line 1"),
        (1.5, 2.0, "Bye.", "line 3"),
        (3.0, 4.0, "", "line 4"),
    ]


SEGMENTS = [
    {"id": 0, "start": 0.0, "end": 1.5, "text": " One, two.", "speaker": "SPEAKER_00", "words": []},
    {"id": 1, "start": 2, "end": None, "text": "Three."},
    {"id": 2, "start": 3, "end": 4, "text": None, "speaker": None},
]


@pytest.mark.parametrize("whole", [True, False])
def test_segments_of_whisper(whole):
    content = {"text": "One, two. Three.", "segments": SEGMENTS, "language": "en"}
    found = parse_cues(json.dumps(content if whole else SEGMENTS), ".json")
    assert [(cue.place, cue.text, cue.speaker) for cue in found] == [
        ("segment 1", "One, two.", "SPEAKER_00"),
        ("segment 2", "Three.", "speaker"),
        ("segment 3", "", "speaker"),
    ]
    assert (found[0].start_s, found[0].end_s, found[0].fault) == (0.0, 1.5, None)
    assert "its times cannot be read" in found[1].fault.detail


def test_whispers_table_has_milliseconds():
    found = parse_cues("start\tend\ttext\n0\t1500\tOne, two.\n2000\tx\tThree.\ntorn\n", ".tsv")
    assert [(cue.start_s, cue.end_s, cue.text, bool(cue.fault)) for cue in found] == [
        (0.0, 1.5, "One, two.", False),
        (0.0, 0.0, "Three.", True),
        (0.0, 0.0, "", True),
    ]


def test_ass_names_its_speakers():
    lines = ["[Script Info]", "ScriptType: v4.00+", "", "[Events]"]
    lines += ["Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text"]
    lines += ["Dialogue: 0,0:00:01.00,0:00:02.00,Default,Anna,0,0,0,,{\\i1}Hello{\\i0}\\Nthere."]
    lines += ["Comment: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,not said"]
    (cue,) = parse_cues("\n".join(lines) + "\n", ".ass")
    assert (cue.start_s, cue.end_s, cue.text, cue.speaker) == (1.0, 2.0, "Hello there.", "Anna")


def test_right_to_left_and_combining_text_stay():
    text = "שלום עולם — cafe\u0301 ሰላም።"
    (cue,) = parse_cues(f"1\n00:00:00,000 --> 00:00:02,000\n{text}\n", ".srt")
    assert cue.text == "שלום עולם — café ሰላም።"


def test_nul_characters_are_refused():
    with pytest.raises(UserError, match="NUL"):
        parse_cues("1\n00:00:00,000 --> 00:00:02,000\nHe\0llo\n", ".srt")


@given(st.text(max_size=300))
def test_whatever_a_file_holds_each_cue_of_it_comes_back_in_order(content):
    content = content.replace("\0", "")
    for kind in (".srt", ".vtt"):
        assert [cue.place for cue in parse_cues(content, kind)] == [
            f"cue {number}" for number in range(1, len(parse_cues(content, kind)) + 1)
        ]
    lines = [line for line in content.split("\n") if line.strip() and not line.startswith("\\")]
    assert len(parse_cues(content, ".txt")) == len(lines)


words = st.text(alphabet="abcdé ", min_size=1, max_size=20).filter(str.strip)


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**7), words), max_size=20))
def test_every_cue_that_is_written_is_read(cues):
    def clock(ms: int) -> str:
        return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1_000 % 60:02},{ms % 1_000:03}"

    content = "\n".join(f"{n}\n{clock(a)} --> {clock(b)}\n{text}\n" for n, (a, b, text) in enumerate(cues))
    found = [(round(cue.start_s * 1_000), round(cue.end_s * 1_000), cue.text) for cue in parse_cues(content, ".srt")]
    assert found == [(a, b, " ".join(text.split())) for a, b, text in cues]
