"""Recordings of a sentence read aloud: what is wrong is named, and the rest is written without the silence around."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from utils.audio.decode import load_audio
from utils.audio.write import write_wav
from utils.dataset.read_aloud.check import LEAD_S, TAIL_S, check
from utils.evaluation import recognition
from webui import text

VOICE = Path(__file__).parents[3] / "assets" / "demo_voice" / "wavs"
WORDS = "Nothing pleases Uncle George more than fresh bread and honey."
OTHER = "She sells baskets, chairs, and woollen scarves at the village market."
RATE = 44_100
"""Of what browsers record."""


@pytest.fixture(scope="module")
def spoken() -> Tensor:
    """The sentence with a second of a quiet room on both sides, at half of full scale."""
    wav = load_audio(VOICE / "demo-05.flac", RATE)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        room = 1e-4 * torch.randn(1, wav.shape[1] + 2 * RATE)
    room[:, RATE : RATE + wav.shape[1]] += wav / wav.abs().max() / 2
    return room


def checked(
    folder: Path, wav: Tensor, words: str = WORDS, transcriber: str = "", language: str = "en"
) -> tuple[dict, list[Path]]:
    """What is said of a recording, and what was written."""
    recording, written = folder / "recording.wav", folder / "written"
    written.mkdir()
    write_wav(recording, wav, RATE)
    found = check(recording=str(recording), folder=str(written), text=words, language=language, transcriber=transcriber)
    return found, list(written.iterdir())


def test_a_clean_sentence_is_written_without_the_silence_around_it(spoken, tmp_path):
    found, (wav,) = checked(tmp_path, spoken)
    assert found["problems"] == [] and found["recognized"] == ""
    samples = load_audio(wav, RATE)[0]
    loud = (samples.abs() > 0.02).nonzero()
    assert found["seconds"] == pytest.approx(len(samples) / RATE, abs=0.01)
    assert int(loud[0]) / RATE == pytest.approx(LEAD_S, abs=0.15)
    assert (len(samples) - int(loud[-1])) / RATE == pytest.approx(TAIL_S, abs=0.25)


def noisy(wav: Tensor) -> Tensor:
    return wav + 0.05 * torch.randn(wav.shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("clipping", lambda wav: (10 * wav).clamp(-1, 1)),
        ("noise", noisy),
        ("cut beginning", lambda wav: wav[:, int(1.6 * RATE) :]),
        ("cut end", lambda wav: wav[:, : int(3.9 * RATE)]),
        ("little speech", lambda wav: wav[:, :RATE]),
        ("little speech", torch.zeros_like),
        ("too long", lambda wav: torch.cat([wav] * 4, dim=1)),
        ("too short", lambda wav: wav[:, RATE : RATE + 8_000]),
    ],
)
def test_what_is_wrong_is_named_with_what_to_do(spoken, tmp_path, name, change):
    problems = checked(tmp_path, change(spoken))[0]["problems"]
    assert name in problems
    assert all(text.READ_ADVICE[problem] for problem in problems)


@pytest.mark.parametrize(("words", "name"), [("Yes.", "too long"), (4 * WORDS, "too short")])
def test_a_recording_that_does_not_fit_its_sentence_is_named(spoken, tmp_path, words, name):
    assert checked(tmp_path, spoken, words)[0]["problems"] == [name]


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("zh", "今天天气很好我们去公园散步"),
        ("ja", "今日は天気がとても良いです"),
        ("ko", "오늘은날씨가아주좋아서갔습니다"),
        ("amh", "ዛሬ አየሩ በጣም ጥሩ ስለሆነ"),
    ],
)
def test_a_character_may_be_a_syllable(spoken, tmp_path, language, words):
    """A dozen take as long as thirty letters, and four times as many are too many for 3 s."""
    assert checked(tmp_path, spoken, words, language=language)[0]["problems"] == []
    (tmp_path / "more").mkdir()
    assert checked(tmp_path / "more", spoken, 4 * words, language=language)[0]["problems"] == ["too short"]


def test_what_is_no_recording_is_named_and_nothing_is_written(tmp_path):
    recording = tmp_path / "recording.wav"
    recording.write_bytes(b"no sound")
    found = check(recording=str(recording), folder=str(tmp_path), text=WORDS, language="en", transcriber="")
    assert found["problems"] == ["unreadable audio"] and list(tmp_path.iterdir()) == [recording]


@pytest.mark.programs("recognizer")
def test_a_recognizer_says_when_other_words_were_read(spoken, tmp_path):
    weights = str(recognition.packaged("tiny.en"))
    found, _ = checked(tmp_path, spoken, transcriber=weights)
    assert found["problems"] == [] and "bread and honey" in found["recognized"]
    (tmp_path / "other").mkdir()
    assert checked(tmp_path / "other", spoken, OTHER, weights)[0]["problems"] == ["transcript"]


def test_a_recognizer_that_is_not_here_is_said_and_keeps_nothing_back(spoken, tmp_path):
    found, written = checked(tmp_path, spoken, transcriber=str(tmp_path))
    assert found["problems"] == [] and "no converted Whisper model" in found["recognized"] and len(written) == 1
