"""Sentences that are read aloud: which comes next, what is kept of them, and whether they are fit for a dataset."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from utils.audio.write import write_wav
from utils.dataset.read_aloud.store import ENOUGH_S, RecordingSession
from utils.project.paths import Project
from utils.text.error_rate import letters

LETTERS = {"en": "abcdefghijklmnopqrstuvwxyz", "es": "abcdefghijlmnopqrstuvxyzáéíóúñü"}
FASTEST = 17.5
"""Letters a second of a hurried reader; 15 is the fastest sentence of the demo voice."""


@pytest.fixture
def reading(tmp_path) -> RecordingSession:
    return RecordingSession(Project(name="maria", output=tmp_path / "output"), "en")


def read(reading: RecordingSession, folder: Path, words: str, *, seconds: int = 1, **options: Any) -> None:
    wav = folder / "any.wav"
    write_wav(wav, torch.zeros(1, 8_000 * seconds), 8_000)
    reading.keep(words, wav, quota_bytes=10**6, **options)


@pytest.mark.parametrize("language", ["en", "es"])
def test_sentences_are_everyday_whole_and_enough(reading, language):
    found = RecordingSession(reading.project, language).sentences
    assert len(set(found)) == len(found) >= 30
    assert all(6 <= len(sentence.split()) <= 16 for sentence in found)
    # Everything is written as it is spoken, and no letter of the language is missing.
    assert not any(re.search(r"\d", sentence) for sentence in found)
    assert set(LETTERS[language]) <= set("".join(found).lower())
    assert {sentence[-1] for sentence in found} == set(".?!")
    assert sum(len(letters(sentence)) for sentence in found) / FASTEST > ENOUGH_S - 40


def test_recordings_are_uploads_and_reading_goes_on_behind_them(reading, tmp_path):
    first, second, third = reading.sentences[:3]
    assert reading.following() == first
    read(reading, tmp_path, first)
    # As another page or another day finds it.
    assert RecordingSession(reading.project, "en").following() == second
    assert reading.following(second) == third, "a sentence may be skipped, and comes again at the end"
    for sentence in reading.sentences[2:]:
        read(reading, tmp_path, sentence)
    assert reading.following(reading.sentences[-1]) == second
    wavs = reading.project.folder / "uploads" / "dataset" / "wavs"
    names = sorted(path.name for path in wavs.iterdir())
    assert len(names) == 2 * (len(reading.sentences) - 1), "each has a name of its own"
    transcripts = {path.read_text(encoding="utf-8") for path in wavs.glob("*.txt")}
    assert transcripts == {*reading.sentences} - {second}
    read(reading, tmp_path, second)
    assert reading.following(second) == "" == RecordingSession(reading.project, "pl").following()


def test_sentences_that_begin_alike_are_two_recordings(reading, tmp_path):
    start = "the old man walked slowly along the river with his dog"
    read(reading, tmp_path, f"{start} at noon")
    read(reading, tmp_path, f"{start} at night")
    assert len(reading.recorded) == 2


def test_a_sentence_that_is_read_again_counts_once(reading, tmp_path):
    for seconds in (1, 2):
        read(reading, tmp_path, reading.sentences[0], seconds=seconds)
    assert list(reading.recorded.values()) == [2.0]
    assert RecordingSession(reading.project, "es").recorded == {}


def test_a_sentence_whose_words_were_changed_is_done(reading, tmp_path):
    first, second = reading.sentences[:2]
    read(reading, tmp_path, "Welcome, all of you.", sentence=first)
    assert reading.following() == second == RecordingSession(reading.project, "en").following(first)
    read(reading, tmp_path, "Welcome.", sentence=first)
    (transcript,) = (reading.project.folder / "uploads" / "dataset" / "wavs").glob("*.txt")
    assert transcript.read_text(encoding="utf-8") == "Welcome."


def test_what_is_kept_anyway_is_done_but_is_not_clean(reading, tmp_path):
    first, second = reading.sentences[:2]
    read(reading, tmp_path, first, seconds=2, is_clean=False)
    assert list(reading.recorded.values()) == [2.0] and reading.clean_s == 0
    assert reading.following() == second
    read(reading, tmp_path, first, seconds=1)
    assert list(reading.recorded.values()) == [1.0] and reading.clean_s == 1
    assert len(list((reading.project.folder / "uploads" / "dataset" / "wavs").iterdir())) == 2, "in place of the other"
