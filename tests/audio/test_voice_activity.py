"""Voice activity: the same probabilities as the package's own model, in parts or as a whole."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from tests.sounds import speech
from utils.audio import voice_activity
from utils.audio.decode import load_audio
from utils.audio.voice_activity import FRAME, VAD_RATE, load_voice_activity
from utils.errors import UserError
from utils.project.paths import assets_folder


@pytest.fixture(scope="module")
def voice() -> torch.Tensor:
    """Some seconds of the bundled voice with silence between, [1, N] at 16 000 Hz."""
    clips = sorted((assets_folder() / "demo_voice" / "wavs").iterdir())[:3]
    silence = torch.zeros(1, VAD_RATE)
    return torch.cat([part for clip in clips for part in (load_audio(clip, VAD_RATE), silence)], dim=1)


def test_the_probabilities_are_those_of_silero_vad(voice):
    spec = find_spec("silero_vad")
    assert spec is not None and spec.origin is not None
    stock = torch.jit.load(Path(spec.origin).parent / "data" / "silero_vad.jit")
    whole = torch.nn.functional.pad(voice, (0, -voice.shape[1] % FRAME))
    with torch.inference_mode():
        expected = torch.cat([stock(chunk, VAD_RATE)[0] for chunk in whole.split(FRAME, dim=1)])
    found, _ = load_voice_activity()(voice)
    assert found.shape == expected.shape
    assert torch.allclose(found, expected, atol=2e-5)
    assert expected.max() > 0.9 and expected.min() < 0.1


def test_parts_with_their_state_give_what_the_whole_gives(voice):
    model = load_voice_activity()
    whole, _ = model(voice)
    state, parts = None, []
    for part in voice.split(37 * FRAME, dim=1):
        found, state = model(part, state)
        parts.append(found)
    assert torch.allclose(torch.cat(parts), whole, atol=1e-4)


def test_blocks_of_a_long_recording_join_without_a_seam(monkeypatch, voice):
    whole, _ = load_voice_activity()(voice)
    monkeypatch.setattr(voice_activity, "_BLOCK_FRAMES", 10)
    blocks, _ = load_voice_activity()(voice)
    assert torch.allclose(blocks, whole, atol=1e-4)


def test_clips_together_give_what_each_gives_alone(monkeypatch, voice):
    model = load_voice_activity()
    monkeypatch.setattr(voice_activity, "_BLOCK_FRAMES", 100)
    clips = [voice[:, :16_000], voice[:, :1], voice, voice[:, 9_999:40_321], voice[:, : 3 * FRAME]]
    for together, clip in zip(model.of_clips(clips), clips, strict=True):
        alone, _ = model(clip)
        assert together.shape == alone.shape
        assert torch.allclose(together, alone, atol=1e-5)
    assert model.of_clips([]) == []


def test_loading_it_leaves_the_number_of_threads_alone():
    before = torch.get_num_threads()
    load_voice_activity()
    assert torch.get_num_threads() == before


def test_a_missing_package_is_said(monkeypatch):
    monkeypatch.setattr(voice_activity, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="silero-vad is not installed"):
        load_voice_activity()


def test_speech_stands_out_from_noise():
    model = load_voice_activity()
    noise = 0.01 * torch.randn(1, 2 * VAD_RATE, generator=torch.Generator().manual_seed(0))
    assert model(noise)[0].max() < 0.5
    assert model(speech(1.0)[:, :100])[0].shape == (1,)
