"""One JSON object a line: the names that tools use, times of parts, and lines that cannot be used."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from utils.dataset.formats.readers import parse_jsonl


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"audio_file": "a.wav", "text": "Hi.", "speaker_name": "x"}', ("a.wav", "Hi.", "x", 0.0, None)),
        ('{"file_name": "a.wav", "transcription": "Hi  there."}', ("a.wav", "Hi there.", "speaker", 0.0, None)),
        ('{"audio_filepath": "a", "text": "T", "duration": 9.5}', ("a", "T", "speaker", 0.0, None)),
        ('{"audio_filepath": "a", "text": "T", "offset": 2, "duration": 3.5}', ("a", "T", "speaker", 2.0, 5.5)),
        ('{"audio": {"path": "a"}, "sentence": "T", "start": 1, "end": 2}', ("a", "T", "speaker", 1.0, 2.0)),
        ('{"path": "a", "text": "$5", "normalized_text": "five dollars"}', ("a", "five dollars", "speaker", 0.0, None)),
    ],
)
def test_names_and_times(line, expected):
    (row,) = parse_jsonl(line)
    assert (row.audio, row.text, row.speaker, row.start_s, row.end_s) == expected and not row.problem


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{broken", "it is not JSON"),
        ("[1, 2]", "it is not a JSON object"),
        ('{"text": "Hi."}', "it has no audio_file"),
        ('{"audio": 3, "text": "Hi."}', "it has no audio_file"),
        ('{"audio": "a", "text": "T", "start": "soon"}', "its times are not numbers"),
        ('{"audio": "a", "text": "T", "start": 5, "end": 4}', "its times are invalid"),
        ('{"audio": "a", "text": "T", "start": NaN}', "its times are not numbers"),
        ("[" * 100_000, "it is not JSON"),
    ],
)
def test_a_line_that_cannot_be_used_does_not_stop_the_others(line, problem):
    first, second = parse_jsonl(f'{line}\n\n{{"audio": "b", "text": "T"}}\n')
    assert first.problem.startswith(problem) and first.line == 1
    assert second.audio == "b" and second.line == 3


@given(st.text(max_size=200))
def test_every_line_has_a_row(content):
    assert len(parse_jsonl(content)) == sum(bool(line.strip()) for line in content.split("\n"))
