"""Speak one text: as codes, greedily, without a batch, and as sound."""

from typing import Any

import torch
from torch import Tensor

from utils.inference.decode import Decoder, Sentence
from utils.inference.engine import Synthesizer
from utils.model.gpt import XttsGpt
from utils.model.voices import Voice
from utils.options import SpeechSettings


def greedy(
    gpt: XttsGpt, voice: Tensor, tokens: list[int], *, limit: int, repetition_penalty: float = 2.0
) -> tuple[Tensor, Tensor]:
    """Codes [M] and the hidden states that said them, [1, M, D], of a text in the voice of latents [1, P, D]."""
    decoder, sampling = Decoder(gpt), SpeechSettings(temperature=0, repetition_penalty=repetition_penalty)
    sentence = Sentence(latents=voice, tokens=tokens, settings=sampling, limit=limit)
    decoder.join(sentence)
    while decoder.sentences:
        decoder.step()
    return torch.tensor(sentence.codes), decoder.hidden(sentence)[None]


def decoded(decoder: Decoder, wanted: list[Sentence]) -> list[list[int]]:
    """Codes of sentences that join as soon as there is room."""
    waiting = list(wanted)
    while waiting or decoder.sentences:
        while waiting and decoder.takes(waiting[0].adapter):
            decoder.join(waiting.pop(0))
        decoder.step()
    return [sentence.codes for sentence in wanted]


def said(
    synthesizer: Synthesizer, text: str, *, voice: Voice | None = None, guard: bool = True, **settings: Any
) -> Tensor:
    """An English text, [1, N]; by the model's own voice where none is given."""
    how = SpeechSettings(**settings)
    pieces = synthesizer.pieces(text, "en", split=how.split)
    who = voice or synthesizer.default_voice()
    utterances = synthesizer.utterances(pieces, voice=who, settings=how, guard=guard)
    return torch.cat([one.wav for one in synthesizer.batch.speak(utterances)], dim=1)
