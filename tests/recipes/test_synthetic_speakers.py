"""Synthetic speakers: always the same ones, each of its own pitch and timbre, beside espeak-ng's own voices."""

from pathlib import Path

import pytest

from recipes.starter.corpus import read_wav, speak
from recipes.starter.synthetic_speakers import DATA, make_synthetic_speakers
from recipes.starter.voices import EspeakVoice
from utils.audio.pitch import track_pitch
from utils.options import DATASET_RATE

pytestmark = pytest.mark.programs("espeak-ng")
TEXT = "We are away in May."


def test_synthetic_speakers_have_voices_of_their_own(tmp_path: Path) -> None:
    speakers = make_synthetic_speakers(tmp_path / "one", count=6)
    plain = EspeakVoice(name="plain", voice="en-us", pitch=50, speed=160)
    sounds = [read_wav(spoken(voice, tmp_path)) for voice in (plain, *speakers)]
    pitches = [pitch[pitch > 0].median().item() for pitch in (track_pitch(s, DATASET_RATE, 256) for s in sounds)]
    assert max(pitches) > 1.5 * min(pitches)
    assert all(sound.abs().max() > 0.1 for sound in sounds)
    assert len({tuple(sound[0, :8000].tolist()) for sound in sounds}) == 7


def test_the_same_synthetic_speakers_are_made_again_and_espeaks_own_voices_stay(tmp_path: Path) -> None:
    first, second = (make_synthetic_speakers(tmp_path / name, count=3) for name in ("one", "two"))
    assert spoken(first[2], tmp_path / "one").read_bytes() == spoken(second[2], tmp_path / "two").read_bytes()
    again = make_synthetic_speakers(tmp_path / "one", count=3)
    assert again == first and len(list((tmp_path / "one" / DATA / "voices" / "!v").iterdir())) == 3
    own = EspeakVoice(name="own", voice="en-gb", pitch=50, speed=160)
    there = EspeakVoice(name="there", voice="en-gb", pitch=50, speed=160, data=tmp_path / "one")
    assert spoken(own, tmp_path).read_bytes() == spoken(there, tmp_path).read_bytes()


def spoken(voice: EspeakVoice, folder: Path) -> Path:
    path = folder / f"{voice.name}.wav"
    speak(TEXT, voice, path)
    return path
