"""The speaker encoder of a base's sizes, stock's or the starter's."""

from torch import nn

from utils.model.shapes import DecoderShape
from utils.options import SPEAKER_RATE

AUDIO = {
    "fft_size": 512,
    "win_length": 400,
    "hop_length": 160,
    "sample_rate": SPEAKER_RATE,
    "preemphasis": 0.97,
    "num_mels": 64,
}
"""The spectrogram that it reads, as stock's (coqui-tts, HifiDecoder's speaker_encoder_audio_config)."""


def build_speaker_encoder(shape: DecoderShape) -> nn.Module:
    """A speaker encoder of these sizes, with random weights: [B, N] at 16 000 Hz to [B, E]."""
    from TTS.encoder.models.resnet import ResNetSpeakerEncoder

    encoder: nn.Module = ResNetSpeakerEncoder(
        input_dim=AUDIO["num_mels"],
        proj_dim=shape.speaker_width,
        layers=list(shape.speaker_layers),
        num_filters=list(shape.speaker_filters),
        log_input=True,
        use_torch_spec=True,
        audio_config=AUDIO,
    )
    return encoder
