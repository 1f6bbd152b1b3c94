"""Speak one text as codes, greedily, without a batch."""

import torch
from torch import Tensor

from utils.inference.decode import Decoder, Sentence
from utils.inference.sampling import Sampling
from utils.model.gpt import XttsGpt


def greedy(
    gpt: XttsGpt, voice: Tensor, tokens: list[int], *, limit: int, repetition_penalty: float = 2.0
) -> tuple[Tensor, Tensor]:
    """Codes [M] and the hidden states that said them, [1, M, D], of a text in the voice of latents [1, P, D]."""
    decoder, sampling = Decoder(gpt), Sampling(temperature=0, repetition_penalty=repetition_penalty)
    sentence = Sentence(latents=voice, tokens=tokens, sampling=sampling, limit=limit)
    decoder.join(sentence)
    while decoder.sentences:
        decoder.step()
    return torch.tensor(sentence.codes), decoder.hidden(sentence)[None]
