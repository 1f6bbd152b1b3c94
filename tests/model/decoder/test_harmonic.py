"""The harmonic source hums what it is given, its generator is called as stock's is; the envelope filter shapes it."""

from dataclasses import replace

import torch

from utils.audio.pitch import track_pitch
from utils.decoder_training.spectral import SpectralLoss
from utils.model.decoder.build import build_decoder
from utils.model.decoder.harmonic import HOP, EnvelopeFilter, make_source, pitch_of
from utils.model.shapes import DecoderShape
from utils.options import OUTPUT_RATE

SHAPE = DecoderShape(
    latent_width=8,
    speaker_width=4,
    initial_channels=16,
    speaker_filters=(4, 4, 4, 8),
    speaker_layers=(1, 1, 1, 1),
    harmonic_source=True,
)


def test_sine_and_harmonics_have_the_pitch_that_was_told_and_the_noise_has_none():
    source = make_source(torch.tensor([[110.0] * 60, [330.0] * 60]), HOP)
    assert source.shape == (2, 3, 60 * HOP)
    for channel in (0, 1):
        found = track_pitch(source[:, channel], OUTPUT_RATE, HOP)[:, 3:-3]
        assert (12 * (found / torch.tensor([[110.0], [330.0]])).log2()).abs().max() < 0.2
    assert (track_pitch(source[:, 2], OUTPUT_RATE, HOP) > 0).float().mean() < 0.1
    assert torch.equal(source[0, 2], source[1, 2]), "the noise is always the same"
    assert source.isfinite().all()


def test_harmonics_reach_up_but_never_fold_over():
    hum = make_source(torch.full((1, 120), 200.0), HOP)[0, 1]
    power = torch.fft.rfft(hum * torch.hann_window(len(hum))).abs().square()
    hertz = torch.arange(len(power)) * OUTPUT_RATE / len(hum)
    nearest = (hertz / 200).round().clamp(min=1) * 200
    assert power[(hertz - nearest).abs() > 10].sum() < 1e-3 * power.sum()
    assert power[(hertz > 9_000) & (hertz < 10_050)].sum() > 0.05 * power.sum() > 1e3 * power[hertz > 10_100].sum()


def test_what_is_not_voiced_is_silent_and_phase_runs_on():
    pitch = torch.tensor([[0.0] * 10 + [200.0] * 20 + [0.0] * 10 + [200.0] * 20])
    source = make_source(pitch, HOP)[0, 0]
    assert not source[: 9 * HOP].any() and not source[31 * HOP : 39 * HOP].any()
    assert source.diff().abs().max() < 2 * torch.pi * 200 / OUTPUT_RATE * 1.1, "no jump"


def test_the_pitch_head_is_read_within_bounds():
    predicted = torch.tensor([[[0.0, 1.0, 9.0, -9.0], [1.0, 1.0, 1.0, -1.0]]])
    assert pitch_of(predicted).tolist() == [[150.0, 300.0, 500.0, 0.0]]


def test_a_trunk_outlines_each_frame_and_the_generator_listens_to_it():
    torch.manual_seed(1)
    generator = build_decoder(replace(SHAPE, trunk_blocks=2)).eval().waveform_decoder
    frames, voice = torch.randn(2, 8, 12), torch.randn(2, 4, 1)
    with torch.inference_mode():
        sound, outline = generator(frames, g=voice), generator.outline(frames, voice)
        other = generator(frames, g=voice.flip(0))
        one = generator(frames[0], g=voice[:1])
        torch.testing.assert_close(one, generator(frames[:1], g=voice[:1]))
        generator.listen.weight.zero_()
        deaf = generator(frames, g=voice)
    assert sound.shape == (2, 1, 12 * HOP)
    assert outline.pitch.shape == (2, 2, 12) and outline.mel.shape == (2, 80, 12)
    assert not torch.equal(sound, other) and not torch.equal(sound, deaf)


def test_a_decoder_without_a_trunk_speaks_with_the_pitch_that_it_reads():
    torch.manual_seed(1)
    decoder = build_decoder(SHAPE).eval()
    generator, frames, voice = decoder.waveform_decoder, torch.randn(2, 8, 12), torch.randn(2, 4, 1)
    with torch.inference_mode():
        own, outline = generator(frames, g=voice), generator.outline(frames, voice)
        other = generator.render(frames, voice, None, make_source(torch.full((2, 12), 220.0), HOP))
        spoken = decoder(torch.randn(1, 20, 8), g=voice[:1])
    assert own.shape == other.shape == (2, 1, 12 * HOP) and outline.pitch.shape == (2, 2, 12)
    assert not torch.equal(own, other)
    assert spoken.shape[:2] == (1, 1) and spoken.isfinite().all()


FRAMES = 60


def log_mel(sound: torch.Tensor) -> torch.Tensor:
    """As training takes it, of each frame's middle."""
    return SpectralLoss(OUTPUT_RATE).log_mel(sound[..., HOP // 2 :])[..., :FRAMES]


def hum(hertz: float) -> torch.Tensor:
    phase = 2 * torch.pi * hertz * torch.arange(FRAMES * HOP) / OUTPUT_RATE
    return (0.05 * sum((number * phase).cos() for number in range(1, int(10_000 / hertz))))[None, None]


def test_a_sound_that_is_as_told_stays_as_it_is():
    sound = hum(150.0)
    inner = slice(4 * HOP, -4 * HOP)
    made = EnvelopeFilter()(sound, log_mel(sound))
    torch.testing.assert_close(made[..., inner], sound[..., inner], atol=2e-3, rtol=0)
    assert made.shape == sound.shape


def test_the_told_envelope_is_met_and_the_pitch_stays():
    torch.manual_seed(1)
    sound, asked = hum(150.0), log_mel(hum(150.0)).clone()
    tilt = torch.linspace(0.5, -1.5, 80)[:, None] + torch.linspace(-0.5, 0.5, FRAMES)
    made = EnvelopeFilter()(sound, asked + tilt)
    distance = (log_mel(made) - asked - tilt)[..., 4:-4].abs().mean()
    assert distance < 0.25 < (log_mel(sound) - asked - tilt)[..., 4:-4].abs().mean()
    pitch = track_pitch(made[:, 0], OUTPUT_RATE, HOP)[0, 6:-6]
    assert ((pitch / 150.0).log2().abs() < 0.02).float().mean() > 0.95


def test_silence_stays_finite_and_learns():
    asked = torch.zeros(1, 80, FRAMES, requires_grad=True)
    made = EnvelopeFilter()(torch.zeros(1, 1, FRAMES * HOP), asked)
    made.sum().backward()
    assert made.isfinite().all() and asked.grad is not None and asked.grad.isfinite().all()


def test_a_decoder_keeps_no_numbers_of_the_filter():
    assert not EnvelopeFilter().state_dict()
