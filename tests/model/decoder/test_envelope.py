"""The envelope filter gives a sound the spectrum that was given, and leaves its pitch and its place in time."""

import torch

from utils.audio.pitch import track_pitch
from utils.decoder_training.spectral import SpectralLoss
from utils.model.decoder.harmonic import HOP, EnvelopeFilter
from utils.options import OUTPUT_RATE

FRAMES = 60


def log_mel(sound: torch.Tensor) -> torch.Tensor:
    """As training takes it, of each frame's middle."""
    return SpectralLoss(OUTPUT_RATE).log_mel(sound[..., HOP // 2 :])[..., :FRAMES]


def hum(hertz: float) -> torch.Tensor:
    phase = 2 * torch.pi * hertz * torch.arange(FRAMES * HOP) / OUTPUT_RATE
    return (0.05 * sum((number * phase).cos() for number in range(1, int(10_000 / hertz))))[None, None]


def test_a_sound_that_is_as_told_stays_as_it_is() -> None:
    sound = hum(150.0)
    inner = slice(4 * HOP, -4 * HOP)
    made = EnvelopeFilter()(sound, log_mel(sound))
    torch.testing.assert_close(made[..., inner], sound[..., inner], atol=2e-3, rtol=0)
    assert made.shape == sound.shape


def test_the_told_envelope_is_met_and_the_pitch_stays() -> None:
    torch.manual_seed(1)
    sound, asked = hum(150.0), log_mel(hum(150.0)).clone()
    tilt = torch.linspace(0.5, -1.5, 80)[:, None] + torch.linspace(-0.5, 0.5, FRAMES)
    made = EnvelopeFilter()(sound, asked + tilt)
    distance = (log_mel(made) - asked - tilt)[..., 4:-4].abs().mean()
    assert distance < 0.25 < (log_mel(sound) - asked - tilt)[..., 4:-4].abs().mean()
    pitch = track_pitch(made[:, 0], OUTPUT_RATE, HOP)[0, 6:-6]
    assert ((pitch / 150.0).log2().abs() < 0.02).float().mean() > 0.95


def test_silence_stays_finite_and_learns() -> None:
    asked = torch.zeros(1, 80, FRAMES, requires_grad=True)
    made = EnvelopeFilter()(torch.zeros(1, 1, FRAMES * HOP), asked)
    made.sum().backward()
    assert made.isfinite().all() and asked.grad is not None and asked.grad.isfinite().all()


def test_a_decoder_keeps_no_numbers_of_the_filter() -> None:
    assert not EnvelopeFilter().state_dict()
