"""Speak one text as codes in float32, without preparing weights for others."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from utils.inference.decode import CancelledError, Decoder, Sentence
from utils.inference.sampling import Sampling
from utils.model.gpt import XttsGpt


class Decoded(NamedTuple):
    """What the GPT said."""

    codes: Tensor
    """[M] int64, the stop code included when it came."""
    latents: Tensor
    """Hidden states that said them, [1, M, D]: what the vocoder turns into a waveform."""
    stopped: bool
    """Whether the stop code came before the length limit."""


def decode(
    gpt: XttsGpt,
    latents: Tensor,
    tokens: list[int],
    sampling: Sampling,
    *,
    generator: torch.Generator | None = None,
    max_codes: int | None = None,
    is_cancelled: Callable[[], bool] = bool,
) -> Decoded:
    """Speak one text as codes in float32; `Decoder` is for several, and for weights that are prepared once.

    Args:
        gpt: in evaluation mode.
        latents: the voice, [1, P, D].
        tokens: text token ids, at most the model's `max_text_tokens`.
        sampling: how codes are drawn.
        generator: source of randomness on the CPU.
        max_codes: give up after this many codes; the model's own limit when not given.
        is_cancelled: asked before each code; never, when not given.

    Raises:
        CancelledError: it was.
    """
    decoder = Decoder(gpt)
    limit = max_codes or gpt.shape.max_audio_tokens
    sentence = Sentence(latents=latents, tokens=tokens, sampling=sampling, limit=limit, generator=generator)
    decoder.join(sentence)
    while decoder.sentences:
        if is_cancelled():
            raise CancelledError
        decoder.step()
    return Decoded(torch.tensor(sentence.codes), decoder.hidden(sentence)[None], sentence.stopped)
