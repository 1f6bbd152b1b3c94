"""HiFi-GAN's discriminators as coqui-tts ships them: five of periods, three of scales.

Source: Kong et al. 2020, HiFi-GAN, section 2.3.
"""

from torch import Tensor, nn
from TTS.vocoder.models.hifigan_discriminator import HifiganDiscriminator

from utils.decoder_training.spectral import Verdict


class HifiganCritic(nn.Module):
    """70 M parameters that begin at random: XTTS v2 was published without its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = HifiganDiscriminator()

    def forward(self, sound: Tensor) -> list[Verdict]:
        """One verdict for each discriminator, of sounds [B, 1, N]."""
        scores, features = self.inner(sound)
        # The last feature is the score itself.
        return [Verdict(scores=own, features=list(inner[:-1])) for own, inner in zip(scores, features, strict=True)]
