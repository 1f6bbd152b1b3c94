"""Word times are where the words are, in the sound that the program writes."""

import pytest
import soundfile

from recipes.starter.corpus import Utterance, speak, word_times
from recipes.starter.timings import Timer
from recipes.starter.voices import GPT_VOICES, EspeakVoice, everyone

pytestmark = pytest.mark.programs("libespeak-ng")
TEXT = "Stop, please, and think about sixty-four umbrellas."


@pytest.mark.parametrize("voice", GPT_VOICES[::5], ids=lambda voice: voice.name)
def test_a_word_begins_where_the_sentence_without_it_ends(voice: EspeakVoice, tmp_path) -> None:
    times, seconds = Timer()(TEXT, voice)
    assert len(times) == len(TEXT.split()) and times == sorted(times) and times[0] < 0.1
    wav = tmp_path / "whole.wav"
    size = speak(TEXT, voice, wav)
    assert seconds == pytest.approx(size / 22_050, abs=0.15)
    sound, _ = soundfile.read(wav)
    # A comma's pause lies before the word behind it: the quietest part of the whole.
    for number in (1, 2):
        place = int(times[number] * 22_050)
        pause = abs(sound[max(0, place - 1_500) : place - 200]).max()
        assert pause < 0.05 * abs(sound).max()


@pytest.mark.parametrize(
    "text", ["In eleven twelve, the fat sheriffs shook it.", "Why? He left; she, too, was gone.", "A minor bell rang."]
)
def test_times_rise_also_over_the_ends_of_clauses(text: str) -> None:
    timer = Timer()
    for voice in everyone()[::20]:
        times, seconds = timer(text, voice)
        assert times == sorted(times) and times[0] == 0 and times[-1] < seconds


def test_clips_that_sound_otherwise_have_no_times() -> None:
    one, two = (Utterance(split="train", voice=GPT_VOICES[0], number=number, text=TEXT) for number in range(2))
    _, seconds = Timer()(TEXT, GPT_VOICES[0])
    times = word_times({one: round(seconds * 22_050), two: round(seconds * 22_050) + 9_000})
    assert len(times[one].split()) == len(TEXT.split()) and times[two] == ""
