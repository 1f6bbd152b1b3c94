"""Losses between two waveforms: distances of spectrograms, and discriminators.

Shapes: B sounds, N samples, R resolutions, K frequency bins, F frames.
"""

import torch
import torch.nn.functional as F
import torchaudio
from torch import Tensor, nn
from TTS.vocoder.models.hifigan_discriminator import HifiganDiscriminator

RESOLUTIONS = ((512, 120, 480), (1024, 240, 960), (2048, 480, 1920))
"""FFT size, hop and window in samples (Yamamoto et al. 2020, Parallel WaveGAN, adapted to 24 kHz)."""
FLOOR = 1e-5

Verdict = tuple[Tensor, list[Tensor]]
"""What one discriminator says of a batch of sounds: scores, high where it sounds real, [B, 1, K', F']; and outputs of
the inner layers."""


class SpectralLoss(nn.Module):
    """L1 distance of log-mels, and spectral convergence plus log-magnitude distance at three resolutions.

    Source: Kong et al. 2020, HiFi-GAN, equation 5; Yamamoto et al. 2020, Parallel WaveGAN, equations 6 to 8.
    """

    def __init__(self, sample_rate: int) -> None:
        super().__init__()
        self.mel = torchaudio.transforms.MelSpectrogram(
            sample_rate=sample_rate,
            n_fft=1024,
            hop_length=256,
            n_mels=80,
            f_max=sample_rate / 2,
            power=1,
            norm="slaney",
        )

    def log_mel(self, sound: Tensor) -> Tensor:
        """Logarithms of mel magnitudes of sounds [B, 1, N], a frame each 256 samples from the first on: [B, 80, F]."""
        mel: Tensor = self.mel(sound[:, 0])
        return mel.clamp(min=FLOOR).log()

    def forward(self, made: Tensor, real: Tensor) -> dict[str, Tensor]:
        """Losses by name of two sounds [B, 1, N]: mel, convergence, magnitude."""
        convergence, magnitude = [], []
        for resolution in RESOLUTIONS:
            ours, theirs = (spectrum(sound, resolution) for sound in (made, real))
            convergence.append(torch.linalg.norm(theirs - ours) / torch.linalg.norm(theirs).clamp(min=FLOOR))
            magnitude.append(F.l1_loss(ours.log(), theirs.log()))
        return {
            "mel": F.l1_loss(self.log_mel(made), self.log_mel(real)),
            "convergence": torch.stack(convergence).mean(),
            "magnitude": torch.stack(magnitude).mean(),
        }


def spectrum(sound: Tensor, resolution: tuple[int, int, int]) -> Tensor:
    """Magnitudes of sounds [B, 1, N], at least FLOOR: [B, K, F]."""
    fft_size, hop, window = resolution
    frames = torch.stft(
        sound[:, 0], fft_size, hop, window, torch.hann_window(window, device=sound.device), return_complex=True
    )
    # The floor goes under the root: the gradient of a root at zero is infinite.
    return (frames.real.square() + frames.imag.square()).clamp(min=FLOOR**2).sqrt()


def discriminator_loss(discriminator: nn.Module, made: Tensor, real: Tensor) -> Tensor:
    """Least squares: real sounds score 1, made ones 0 (Mao et al. 2017).

    Args:
        discriminator: of sounds [B, 1, N] to a list of `Verdict`.
        made, real: such sounds.
    """
    pairs = zip(discriminator(made), discriminator(real), strict=True)
    return torch.stack([(1 - r).square().mean() + m.square().mean() for (m, _), (r, _) in pairs]).mean()


def generator_losses(discriminator: nn.Module, made: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
    """How far `made` is from scoring 1, and the mean distance of inner features (Larsen et al. 2016)."""
    ours = discriminator(made)
    with torch.no_grad():
        theirs = discriminator(real)
    verdict = torch.stack([(1 - scores).square().mean() for scores, _ in ours]).mean()
    pairs = [pair for (_, m), (_, r) in zip(ours, theirs, strict=True) for pair in zip(m, r, strict=True)]
    return verdict, torch.stack([F.l1_loss(m, r) for m, r in pairs]).mean()


class HifiganCritic(nn.Module):
    """HiFi-GAN's discriminators as coqui-tts ships them: five of periods, three of scales.

    70 M parameters that begin at random: XTTS v2 was published without its own.

    Source: Kong et al. 2020, HiFi-GAN, section 2.3.
    """

    def __init__(self) -> None:
        super().__init__()
        self.inner = HifiganDiscriminator()

    def forward(self, sound: Tensor) -> list[Verdict]:
        """One verdict for each discriminator, of sounds [B, 1, N]."""
        scores, features = self.inner(sound)
        # The last feature is the score itself.
        return [(own, list(inner[:-1])) for own, inner in zip(scores, features, strict=True)]
