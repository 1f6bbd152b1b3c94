"""Stock coqui-tts as the reference: a small GPT of its own class, and its inputs made from ours."""

import contextlib
import io

import torch
from torch import Tensor

from utils.model.shapes import GptShape


def stock_gpt(shape: GptShape):
    """coqui-tts' GPT of the given sizes, with weights large enough that every path carries signal."""
    from TTS.tts.layers.xtts.gpt import GPT

    with contextlib.redirect_stderr(io.StringIO()):
        gpt = GPT(
            layers=shape.layers,
            model_dim=shape.width,
            heads=shape.heads,
            start_text_token=shape.start_text,
            stop_text_token=shape.stop_text,
            max_text_tokens=shape.max_text_tokens,
            max_mel_tokens=shape.max_audio_tokens,
            max_prompt_tokens=70,
            number_text_tokens=shape.text_rows,
            num_audio_tokens=shape.audio_rows,
            start_audio_token=shape.start_audio,
            stop_audio_token=shape.stop_audio,
            use_perceiver_resampler=True,
        )
    generator = torch.Generator().manual_seed(0)
    for parameter in gpt.parameters():
        # Stock starts with some projections at zero, which would hide faults behind them.
        parameter.data.add_(torch.randn(parameter.shape, generator=generator) * 0.02)
    return gpt


def without_dropout(gpt) -> None:
    """Set every dropout of a stock GPT to zero, in place; it stays in training mode."""
    for module in gpt.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0


def stock_inputs(texts: list[Tensor], codes: list[Tensor]) -> dict[str, Tensor]:
    """Padded tensors as stock's trainer makes them: zeros behind each text and each clip's codes."""
    pad = torch.nn.utils.rnn.pad_sequence
    return {
        "text_inputs": pad(texts, batch_first=True),
        "text_lengths": torch.tensor([len(text) for text in texts]),
        "audio_codes": pad(codes, batch_first=True),
        "wav_lengths": torch.tensor([len(clip) * 1024 for clip in codes]),
    }
