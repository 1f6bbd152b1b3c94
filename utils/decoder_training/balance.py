"""Match the average power of the predicted spectra to recordings, band by band."""

from collections.abc import Sequence

import numpy as np
import soundfile
import torch
from torch import Tensor
from TTS.tts.layers.xtts.hifigan_decoder import HifiDecoder

from utils.decoder_training.decoder import decode
from utils.decoder_training.decoder_clips import DecoderClip
from utils.decoder_training.spectral import SpectralLoss
from utils.model.shapes import NUM_MELS
from utils.options import OUTPUT_RATE


@torch.no_grad()
def balance(decoder: HifiDecoder, clips: Sequence[DecoderClip]) -> Tensor:
    """Give each mel band the power that the recordings have in the mean; returns what was added, [80].

    A trunk that outlines the middle of what may come is right as often above as below, but power is a mean: bands that
    are hard to foretell came out up to 6 dB too soft.
    """
    spectral = SpectralLoss(OUTPUT_RATE)
    powers = torch.zeros(2, NUM_MELS)
    for clip in clips:
        latents = torch.from_numpy(np.load(clip.latents).astype(np.float32))[None]
        made = decode(decoder, latents, clip.speaker[None, :, None].float())
        real = torch.from_numpy(soundfile.read(clip.wav, dtype="float32")[0])[None, None, : made.shape[2]]
        for which, sound in enumerate((real, made[..., : real.shape[2]])):
            powers[which] += (2 * spectral.log_mel(sound)[0]).exp().mean(1)
    # A band in which the filter cannot follow must not run away: 1 is 8.7 dB.
    added = ((powers[0] / powers[1]).log() / 2).clamp(-1, 1)
    decoder.waveform_decoder.trunk.leave.bias[-NUM_MELS:] += added
    return added
