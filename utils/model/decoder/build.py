"""HiFi-GAN and speaker encoder of a base's sizes, stock's or the starter's."""

from torch import nn

from utils.model.decoder.acoustic import AcousticModel
from utils.model.decoder.vocos import SpectralGenerator, SpectralVocoder
from utils.model.shapes import DecoderShape
from utils.model.speaker_encoder import build_speaker_encoder


def build_decoder(shape: DecoderShape) -> nn.Module:
    """HiFi-GAN and speaker encoder of these sizes, with random weights."""
    from TTS.tts.layers.xtts.hifigan_decoder import HifiDecoder

    decoder = HifiDecoder(
        decoder_input_dim=shape.latent_width,
        d_vector_dim=shape.speaker_width,
        upsample_initial_channel_decoder=shape.initial_channels,
    )
    if shape.harmonic_source:
        from utils.model.decoder.harmonic import harmonic_generator

        decoder.waveform_decoder = harmonic_generator(shape)
    if shape.vocoder_blocks:
        trunk = AcousticModel(shape.latent_width, shape.speaker_width, shape.trunk_blocks)
        decoder.waveform_decoder = SpectralGenerator(trunk, SpectralVocoder(shape.vocoder_width, shape.vocoder_blocks))
    if not shape.is_stock:
        decoder.speaker_encoder = build_speaker_encoder(shape)
    return decoder
