"""The harmonic source hums what it is given, and the generator that takes it is called as stock's is."""

from dataclasses import replace

import torch

from utils.audio.pitch import track_pitch
from utils.model.decoder.build import build_decoder
from utils.model.decoder.harmonic import make_source, pitch_of
from utils.model.shapes import DecoderShape
from utils.options import OUTPUT_RATE

HOP = 256
SHAPE = DecoderShape(
    latent_width=8,
    speaker_width=4,
    initial_channels=16,
    speaker_filters=(4, 4, 4, 8),
    speaker_layers=(1, 1, 1, 1),
    harmonic_source=True,
)


def test_sine_and_harmonics_have_the_pitch_that_was_told_and_the_noise_has_none() -> None:
    source = make_source(torch.tensor([[110.0] * 60, [330.0] * 60]), HOP)
    assert source.shape == (2, 3, 60 * HOP)
    for channel in (0, 1):
        found = track_pitch(source[:, channel], OUTPUT_RATE, HOP)[:, 3:-3]
        assert (12 * (found / torch.tensor([[110.0], [330.0]])).log2()).abs().max() < 0.2
    assert (track_pitch(source[:, 2], OUTPUT_RATE, HOP) > 0).float().mean() < 0.1
    assert torch.equal(source[0, 2], source[1, 2]), "the noise is always the same"
    assert source.isfinite().all()


def test_harmonics_reach_up_but_never_fold_over() -> None:
    hum = make_source(torch.full((1, 120), 200.0), HOP)[0, 1]
    power = torch.fft.rfft(hum * torch.hann_window(len(hum))).abs().square()
    hertz = torch.arange(len(power)) * OUTPUT_RATE / len(hum)
    nearest = (hertz / 200).round().clamp(min=1) * 200
    assert power[(hertz - nearest).abs() > 10].sum() < 1e-3 * power.sum()
    assert power[(hertz > 9_000) & (hertz < 10_050)].sum() > 0.05 * power.sum() > 1e3 * power[hertz > 10_100].sum()


def test_what_is_not_voiced_is_silent_and_phase_runs_on() -> None:
    pitch = torch.tensor([[0.0] * 10 + [200.0] * 20 + [0.0] * 10 + [200.0] * 20])
    source = make_source(pitch, HOP)[0, 0]
    assert not source[: 9 * HOP].any() and not source[31 * HOP : 39 * HOP].any()
    assert source.diff().abs().max() < 2 * torch.pi * 200 / OUTPUT_RATE * 1.1, "no jump"


def test_the_pitch_head_is_read_within_bounds() -> None:
    predicted = torch.tensor([[[0.0, 1.0, 9.0, -9.0], [1.0, 1.0, 1.0, -1.0]]])
    assert pitch_of(predicted).tolist() == [[150.0, 300.0, 500.0, 0.0]]


def test_a_trunk_outlines_each_frame_and_the_generator_listens_to_it() -> None:
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


def test_a_decoder_without_a_trunk_speaks_with_the_pitch_that_it_reads() -> None:
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
