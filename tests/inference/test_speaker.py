"""Speaking from Python as the README shows it."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from utils.errors import UserError
from utils.inference import word_check
from utils.inference.speaker import Speaker
from utils.inference.speaking import find_voice
from utils.model.voices import Voice, mixed
from utils.speech.voice_library import VoiceLibrary

TEXT = "One. [pause 0.5] And then there were two of them."


@pytest.fixture(scope="module")
def speaker() -> Speaker:
    return Speaker("starter", device="cpu")


@pytest.fixture(scope="module")
def speech(speaker):
    return speaker.speak(TEXT)


def test_a_text_becomes_a_file_with_its_pause(speaker, speech, tmp_path):
    assert speaker.precision == "fp16" and speaker.language == "en"
    speech.save(tmp_path / "speech.wav")
    samples, rate = soundfile.read(tmp_path / "speech.wav")
    assert rate == 24_000 and len(samples) == len(speech.wav) == round(speech.seconds * 24_000)
    assert [sentence.text for sentence in speech.sentences] == ["One.", "And then there were two of them."]
    first = speech.sentences[0].wav[0]
    assert not first[-12_000:].any() and first[-12_500:-12_000].any()


def test_a_stream_gives_the_same_in_pieces(speaker, speech):
    chunks = list(speaker.stream(TEXT))
    joined = np.concatenate(chunks)
    assert len(chunks) > 2 and joined.shape == speech.wav.shape
    assert np.abs(joined - speech.wav).max() < 0.05


def test_texts_side_by_side_are_what_they_are_alone(speaker, speech):
    _, again = speaker.speak_batch(["Nobody knew.", TEXT])
    assert again.wav.shape == speech.wav.shape
    assert not np.array_equal(speaker.speak("One.", seed=7).wav, speaker.speak("One.", seed=8).wav)


def test_two_speakers_of_a_model_share_no_weights():
    one, two = (Speaker("tiny", device="cpu") for _ in range(2))
    first, second = (next(speaker._synthesizer.gpt.parameters()) for speaker in (one, two))
    assert torch.equal(first, second) and first.data_ptr() != second.data_ptr()


def test_a_recording_is_read_once_and_again_when_it_or_the_weights_change(demo_clip, tmp_path):
    synthesizer = Speaker("tiny", device="cpu", precision="fp32")._synthesizer
    voice = synthesizer.voice(demo_clip)
    copy = Path(shutil.copy(demo_clip, tmp_path / "anna.wav"))
    assert synthesizer.voice(copy) is voice
    content = bytearray(copy.read_bytes())
    content[40_000:50_000] = bytes(10_000)
    copy.write_bytes(content)
    assert not torch.equal(synthesizer.voice(copy).latents, voice.latents)
    name, weights = next(one for one in synthesizer.gpt.state_dict().items() if one[0].startswith("conditioning_enc"))
    synthesizer.renew(synthesizer.gpt.state_dict() | {name: weights + 0.01})
    assert not torch.equal(synthesizer.voice(demo_clip).latents, voice.latents)


@pytest.mark.parametrize("height", [0, 1])
def test_a_reference_without_sound_is_refused(speaker, tmp_path, height):
    # Of one step of 16 bits: the noise of a converter without a microphone.
    noise = np.random.default_rng(0).integers(-height, height, 66_150, endpoint=True).astype(np.int16)
    soundfile.write(tmp_path / "silent.wav", noise, 22_050)
    with pytest.raises(UserError, match="holds no sound") as error:
        speaker.speak(TEXT, voice=str(tmp_path / "silent.wav"))
    assert "silent.wav" in str(error.value) and "6 to 30 s of clear speech" in error.value.fix


def test_words_of_the_projects_table_are_said_otherwise(tmp_path):
    (tmp_path / "anna").mkdir()
    (tmp_path / "anna" / "pronunciations.csv").write_text("word,say,language\nDr,Doctor,\n", encoding="utf-8")
    speaker = Speaker("tiny", project="anna", output=tmp_path, device="cpu")
    first, second = speaker.speak_batch(["No, Dr.", "No, Doctor."], language="en", speed=4.0)
    assert np.array_equal(first.wav, second.wav)
    assert (first.sentences[0].said, second.sentences[0].said) == (("Dr: Doctor",), ())


def test_a_text_is_spoken_by_several_voices(tmp_path):
    anna, ben = sorted(Path("assets/demo_voice/wavs").glob("*.flac"))[:2]
    VoiceLibrary(tmp_path).make("ben", [ben])
    speaker = Speaker("starter", output=tmp_path, device="cpu", precision="fp32")
    text = "One. [voice: ben] Two. [voice: default] Three."
    parts = speaker.speak(text, voice=str(anna)).sentences
    ssml = '<speak>One. <voice name="ben">Two.</voice> Three.</speak>'
    assert np.array_equal(speaker.speak(ssml, voice=str(anna)).wav, torch.cat([part.wav for part in parts], 1)[0])
    by_anna, by_ben = (speaker.speak("One. Two. Three.", voice=str(one)).sentences for one in (anna, ben))
    alike = [[torch.equal(part.wav, one[number].wav) for one in (by_anna, by_ben)] for number, part in enumerate(parts)]
    assert alike == [[True, False], [False, True], [True, False]]
    with pytest.raises(UserError, match=r"(?s)no voice 'eve'; there is no voice 'zoe'\n.*one of: default, ben"):
        speaker.speak("One. [voice: ben] Two. [voice: eve] Three. [voice: zoe] Four.")


def test_a_stream_that_is_left_leaves_nothing_behind(speaker):
    stream = speaker.stream("A sentence that is not played to its end, however long it is.")
    next(stream)
    stream.close()
    assert speaker._synthesizer.batch.is_idle


def test_voices_by_name_by_recording_and_mixed(speaker, demo_clip):
    one, two = speaker.voice(speaker.voices[0]), speaker.voice(speaker.voices[1])
    half = speaker.voice(f"{speaker.voices[0]}:1, {speaker.voices[1]}:1")
    assert torch.allclose(half.latents, (one.latents + two.latents) / 2, atol=1e-6)
    lengths = [float(voice.embedding.norm()) for voice in (half, one, two)]
    assert lengths[0] == pytest.approx((lengths[1] + lengths[2]) / 2, rel=1e-4)
    recorded = speaker.voice(demo_clip)
    assert torch.equal(speaker.voice([demo_clip, demo_clip]).latents, recorded.latents)
    assert torch.equal(speaker.voice("default").latents, speaker.voice().latents)


def test_a_recording_that_hides_the_models_voice_of_that_name_is_named(speaker, demo_clip, caplog):
    name = speaker.voices[0]
    found = find_voice(speaker._synthesizer, name, recordings={name: demo_clip})
    assert torch.equal(found.latents, speaker.voice(demo_clip).latents)
    assert f"the recording of voice {name!r} is used, not the model's voice" in caplog.text


def test_a_voices_name_goes_before_a_file_of_that_name(speaker, tmp_path, monkeypatch):
    name = speaker.voices[0]
    known = speaker.voice(name)
    monkeypatch.chdir(tmp_path)
    for file in (name, "default", f"{name}:1"):
        (tmp_path / file).write_bytes(b"no sound")
    assert torch.equal(speaker.voice(name).latents, known.latents)
    assert torch.equal(speaker.voice("default").latents, speaker.voice().latents)
    with pytest.raises(UserError, match="no voice or recording"):
        speaker.voice("n" * 5_000)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"text": " "}, "no text"),
        ({"text": "привет"}, "cannot read: п р и"),
        ({"text": "😀 ..."}, "cannot read: 😀"),
        ({"text": "... !"}, "no text"),
        ({"text": "Yes.", "language": "de"}, "de"),
        ({"text": "Yes.", "voice": "missing"}, "no voice or recording 'missing'"),
        ({"text": "Yes.", "voice": "default:0"}, "weights above 0"),
        ({"text": "Yes.", "voice": []}, "empty"),
        ({"text": "<speak>Yes."}, "not well-formed"),
    ],
)
def test_bad_calls_are_answered_in_words(speaker, settings, words):
    with pytest.raises(UserError, match=words):
        speaker.speak(**settings)


def test_a_text_is_spoken_without_what_the_model_cannot_read(speaker, caplog):
    speech = speaker.speak("**No**, *она* said 😀. 👍 ...")
    assert [sentence.text for sentence in speech.sentences] == ["No, said ."]
    assert speech.unread == ("**", "*", "😀", "👍", "о", "н", "а")
    assert "not read, this model has no sound for it: ** * 😀" in caplog.text
    assert np.array_equal(speech.wav, speaker.speak("No, said .").wav) and not speaker.speak("No.").unread


def test_unknown_models_and_projects(tmp_path):
    for settings in ({"model": "missing"}, {"model": "ready"}, {"model": "ready", "project": "no", "output": tmp_path}):
        with pytest.raises(UserError):
            Speaker(device="cpu", **settings)


def test_a_mixture_needs_weights():
    voice = Voice(latents=torch.ones(1, 32, 4), embedding=torch.ones(1, 4, 1))
    for weights in ((), ((voice, 0.0),), ((voice, 2.0), (voice, -1.0))):
        with pytest.raises(UserError, match="weights"):
            mixed(weights)


class Recognizer:
    """Understands nothing the first time, and then all but a letter."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str, int]] = []

    def load(self) -> None:
        """(it has no weights)"""

    def transcribe(self, samples: np.ndarray, language: str) -> str:
        self.received.append((str(samples.dtype), language, len(samples)))
        return "something else entirely" if len(self.received) == 1 else "Were it twenty fives."


def test_a_sentence_with_other_words_is_spoken_again_and_the_better_one_kept(speaker, monkeypatch):
    recognizer = Recognizer()
    monkeypatch.setattr(word_check, "Transcriber", lambda settings: recognizer)
    monkeypatch.setattr(speaker._synthesizer, "word_check", word_check.word_check("tiny"))
    said = speaker.speak("Were it 25.", seed=3)
    (spoken,) = said.sentences
    assert ["other words" in attempt.faults for attempt in spoken.attempts] == [True, False]
    assert "other words" not in spoken.faults
    # At the recognizer's rate; the kept attempt is the second, as received.
    assert [one[:2] for one in recognizer.received] == [("float32", "en")] * 2
    seconds = len(said.wav) / 24_000 + spoken.tail_cut_s
    assert recognizer.received[1][2] == pytest.approx(seconds * 16_000, abs=4_000)
    assert len(list(speaker.stream("Were it 25.", seed=3))) > 0 and len(recognizer.received) == 2
    monkeypatch.setattr(speaker._synthesizer, "word_check", None)
    alone = speaker.speak("Were it 25.", seed=3)
    assert len(alone.sentences[0].attempts) == 1


def test_a_recognizer_that_is_not_here_is_refused_at_the_start():
    with pytest.raises(UserError, match="no Whisper model 'nothing'"):
        Speaker("starter", device="cpu", transcriber="nothing")
