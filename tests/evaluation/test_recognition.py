"""Recognizers: where weights come from, error rates of known texts, and the real weights where they are installed."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.dataset.recordings import SENTENCE, config
from tests.evaluation.sounds import recording
from utils.audio.resample import resample
from utils.audio.write import write_wav
from utils.bases.find import find_base
from utils.cli.evaluate import SHARE, cell
from utils.dataset.build import prepare
from utils.evaluation.features import RATE
from utils.evaluation.recognition import (
    VARIABLE,
    Recognizer,
    find_recognizer,
    normalizer,
    packaged,
    recognizer_folder,
    usable,
)
from utils.evaluation.reference import say
from utils.evaluation.scores import error_rates
from utils.inference.batch import Piece
from utils.inference.word_check import word_check
from utils.options import DATASET_RATE, OUTPUT_RATE

ENGLISH = ("The bell rang twice this morning.", "She bought a ticket for the train to London.")
SPANISH = "El perro duerme en la casa de mi hermano."


def spoken(text: str, voice: str) -> torch.Tensor:
    return say(text, voice, speed=140)


@pytest.mark.parametrize(
    ("language", "text", "recognized", "wer"),
    [
        ("en", "It's twenty-five degrees, isn't it?", "It is 25 degrees, is not it", 0),
        ("en", "Ring the old bell.", "ring the cold bell", 1 / 4),
        ("en", "Come in.", "come in and in and in", 2),
        ("en", "Come in.", "", 1),
        ("es", "¿Qué tal, mañana?", "que tal mañana", 1 / 3),
        ("zh", "你好世界", "你好地界", 1 / 4),
        ("en", "!", "", 0),
        ("en", "!", "oh", 1),
    ],
)
def test_error_rates_count_words_as_whisper_does(language, text, recognized, wer):
    recognizer = Recognizer(name="known", language=language, hear=lambda wav: recognized)
    assert recognizer.recognize(torch.zeros(1, RATE), text).wer == pytest.approx(wer)


def test_long_sentences_weigh_more_in_the_rate_of_all():
    right = Recognizer(name="right", language="en", hear=lambda wav: "we all saw him go home")
    wrong = Recognizer(name="wrong", language="en", hear=lambda wav: "")
    wav = torch.zeros(1, RATE)
    found = [right.recognize(wav, "We all saw him go home."), wrong.recognize(wav, "Good night.")]
    assert error_rates(found)["wer"] == pytest.approx(2 / 8)


def why_none(weights: str | None, language: str) -> str:
    return usable(partial(find_recognizer, weights, language))[1]


@pytest.mark.slow
def test_weights_are_given_by_folder_or_variable_or_not_at_all(whisper, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "")
    assert recognizer_folder() is None and "requirements-quality.txt" in why_none(None, "en")
    assert "faster-whisper" in why_none(str(tmp_path / "no weights"), "en")
    monkeypatch.setenv(VARIABLE, str(whisper))
    for weights in (str(whisper), None):
        recognizer = find_recognizer(weights, "en-us")
        assert recognizer.hear(recording(1)) == " ".join(SENTENCE)
    assert "does not support the language" in why_none(None, "xx")


def test_few_sentences_are_shown_as_counts():
    assert [cell(0.5, SHARE, count) for count in (12, 100)] == ["50% (6 of 12)", "50%"]
    assert (cell(0.5, "{:.2f}", 12), cell(None, SHARE, 12), cell(float("nan"), SHARE, 12)) == ("0.50", "-", "-")


@pytest.mark.programs("espeak-ng", "recognizer")
def test_real_weights_know_right_words_from_wrong_ones(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    recognizer = find_recognizer(None, "en")
    right, wrong = (recognizer.recognize(spoken(ENGLISH[0], "en-us"), text) for text in ENGLISH)
    assert right.wer <= 1 / 6 and wrong.wer > 0.8
    noise = torch.randn(1, 2 * RATE, generator=torch.Generator().manual_seed(0)) / 10
    assert recognizer.recognize(noise, ENGLISH[0]).wer >= 0.8


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> Path:
    """Two spoken clips; the transcript of the second is another sentence."""
    source = tmp_path_factory.mktemp("source")
    for number, text in enumerate(ENGLISH):
        write_wav(source / f"{number}.wav", resample(spoken(text, "en-us"), RATE, DATASET_RATE), DATASET_RATE)
    rows = [f"{number}.wav|{text}|one" for number, text in enumerate((ENGLISH[0], "Nobody sells umbrellas in July."))]
    (source / "metadata.csv").write_text("\n".join(["audio_file|text|speaker_name", *rows]) + "\n", encoding="utf-8")
    return source


@pytest.mark.programs("espeak-ng", "recognizer")
def test_transcripts_are_checked_with_real_weights(clips, tmp_path):
    checks = {"quality": True, "check_speakers": False, "check_transcripts": True, "transcriber": packaged("tiny.en")}
    checks |= {"transcriber_device": "cpu", "compute_type": "int8", "workers": 1}
    report = prepare(config(clips, tmp_path, **checks | {"transcriber": str(checks["transcriber"])}))
    flagged = [clip for clip in report.used if any(flag.measure == "transcript" for flag in clip.flags)]
    assert [Path(clip.source).stem for clip in flagged] == ["1"]
    assert error_rates([Recognizer(name="", language="en", hear=lambda _: flagged[0].heard or "").recognize(
        torch.zeros(1, RATE), ENGLISH[1])])["wer"] < 0.3  # fmt: skip


# A sentence that is said again and again makes Whisper lose its place, on some processors and not on others.
BOOK = (
    "The bell rang twice this morning.",
    "She bought a ticket for the train to London.",
    "My brother lives in a small house near the river.",
    "We had coffee and bread for breakfast.",
    "The children are playing in the garden.",
    "It will rain again tomorrow afternoon.",
    "He closed the window and turned off the light.",
    "They walked along the beach until the sun went down.",
)


@pytest.mark.slow
@pytest.mark.programs("espeak-ng", "recognizer")
def test_recordings_are_transcribed_with_real_weights(tmp_path):
    source = tmp_path / "book"
    source.mkdir()
    pause = torch.zeros(1, RATE)
    for chapter in range(2):
        sounds = [say(text, "en-us", speed=120) for text in BOOK[chapter::2]]
        wav = torch.cat([part for sound in sounds for part in (sound, pause)], dim=1)
        write_wav(source / f"{chapter}.wav", resample(wav, RATE, DATASET_RATE), DATASET_RATE)
    options = {"transcriber": str(packaged("tiny.en")), "transcriber_device": "cpu", "compute_type": "int8"}
    report = prepare(config(source, tmp_path / "out", **options, workers=1))
    said, recognized = (
        {word.strip(".,") for text in texts for word in text.lower().split()}
        for texts in (BOOK, [clip.text for clip in report.used])
    )
    # All 52 words are found with every instruction set of CTranslate2, in int8 and in float32.
    assert len(report.used) >= 2 and len(said & recognized) >= 0.8 * len(said)


@pytest.mark.slow
@pytest.mark.programs("espeak-ng", "recognizer")
def test_the_guard_of_words_knows_a_wrong_sentence_with_real_weights():
    check, tokenizer = word_check(str(packaged("tiny.en")), device="cpu"), find_base("starter").tokenizer()
    wav = resample(spoken(ENGLISH[1], "en-us"), RATE, OUTPUT_RATE)
    right, wrong = (check(tokenizer, Piece(text=text, tokens=[], language="en"), wav) for text in reversed(ENGLISH))
    assert right < 0.2 < 0.5 < wrong


@pytest.mark.slow
@pytest.mark.programs("espeak-ng", "multilingual-recognizer")
def test_real_weights_recognize_spanish(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    recognizer = find_recognizer(None, "es")
    found = recognizer.recognize(spoken(SPANISH, "es"), SPANISH)
    assert found.wer <= 2 / 9, found.text
    assert np.isfinite(found.cer) and normalizer("es")("¡Hola!") == "hola"
