"""GPT latents to a waveform: the base's HiFi-GAN with weight normalization folded in once.

Shapes: M latents (21.5 a second), D model width, N samples at 24 000 Hz.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize


class Vocoder:
    """The waveform decoder of a base.

    Args:
        decoder: HifiDecoder with its weights, in evaluation mode.
    """

    def __init__(self, decoder: nn.Module) -> None:
        self.decoder = decoder
        for module in decoder.modules():
            if parametrize.is_parametrized(module, "weight"):
                # Weight norm recomputes every weight at each call; folded in, the sums stay the same.
                parametrize.remove_parametrizations(module, "weight")

    @torch.inference_mode()
    def __call__(self, latents: Tensor, speaker: Tensor, *, speed: float = 1.0) -> Tensor:
        """Sound of one sentence.

        Args:
            latents: [1, M, D].
            speaker: speaker embedding, [1, E, 1].
            speed: 2 speaks twice as fast.

        Returns:
            float32 in [-1, 1], [1, N], on the CPU.

        Source: coqui-tts, Xtts.inference.
        """
        if latents.shape[1] / speed < 1:
            latents = latents[:, :1]  # a word so short that nothing would be left of it
        elif speed != 1.0:
            latents = F.interpolate(latents.transpose(1, 2), scale_factor=1 / speed, mode="linear").transpose(1, 2)
        wav: Tensor = self.decoder(latents.float(), g=speaker.float())
        return wav.float().cpu().view(1, -1)
