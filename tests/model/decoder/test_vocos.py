"""The vocoder of frames: its overlap-add inverts a spectrogram, and its sound depends on near frames alone."""

import torch

from utils.model.decoder.vocos import FFT_SIZE, HOP, SpectralVocoder

FRAMES = 40


def test_the_spectra_of_a_sound_are_that_sound_again():
    vocoder = SpectralVocoder(width=8, blocks=1)
    sound = torch.randn(1, FRAMES * HOP, generator=torch.Generator().manual_seed(0))
    edge = (FFT_SIZE - HOP) // 2
    frames = torch.nn.functional.pad(sound, (edge, edge)).unfold(1, FFT_SIZE, HOP)
    spectra = torch.fft.rfft(frames * vocoder.window, dim=2).transpose(1, 2)
    assert spectra.shape[2] == FRAMES
    assert torch.allclose(vocoder._sound(spectra)[:, 0], sound, atol=1e-4)


def test_sound_depends_on_the_frames_within_its_lookahead():
    torch.manual_seed(0)
    vocoder = SpectralVocoder(width=8, blocks=2).eval()
    mel = torch.randn(1, 80, FRAMES)
    changed = mel.clone()
    changed[..., FRAMES // 2] += 1
    with torch.no_grad():
        before, after = vocoder(mel), vocoder(changed)
    assert before.shape == (1, 1, FRAMES * HOP)
    differs = ((before - after)[0, 0].abs() > 1e-6).view(FRAMES, HOP).any(1).nonzero().flatten()
    assert FRAMES // 2 - vocoder.lookahead <= differs.min() and differs.max() <= FRAMES // 2 + vocoder.lookahead
    assert differs.max() - differs.min() > vocoder.lookahead
