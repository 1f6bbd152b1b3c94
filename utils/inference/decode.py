"""The decode engine: text and a voice to audio codes, with one pass over the weights per code.

Shapes: P = 32 latents, L text tokens, M codes, H heads, C channels a head, D model width, V code vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.model.attention import Attend
from utils.model.gpt import XttsGpt

FILLER = 1
"""Stock fills the prompt with this id, so its repetition penalty counts code 1 as spoken; we do as it does."""


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next code is drawn; the defaults are those of `SynthesizeConfig`."""

    temperature: float = 0.65
    """0 takes the likeliest code each time (greedy)."""
    top_k: int = 50
    """Keep this many likeliest codes; 0 keeps all."""
    top_p: float = 0.85
    """Keep the likeliest codes that together reach this probability."""
    repetition_penalty: float = 2.0
    """Scores of codes already spoken are divided by this (multiplied when negative); 1 is none."""


class CancelledError(Exception):
    """Whoever asked for speech no longer wants it."""


class Decoded(NamedTuple):
    """What the GPT said."""

    codes: Tensor
    """[M] int64, the stop code included when it came."""
    latents: Tensor
    """Hidden states that said them, [1, M, D]: what the vocoder turns into sound."""
    stopped: bool
    """Whether the stop code came before the length limit."""


class KeyValueCache:
    """Keys and values of all layers for up to `length` positions, allocated once: [layers, 2, 1, H, length, C]."""

    def __init__(self, gpt: XttsGpt, length: int) -> None:
        shape, weight = gpt.shape, gpt.final_norm.weight
        size = (shape.layers, 2, 1, shape.heads, length, shape.width // shape.heads)
        self.values = torch.empty(size, dtype=weight.dtype, device=weight.device)
        self.filled = 0

    def attend(self, layer: int) -> Attend:
        """Attention of new positions over all so far; they are stored on the way."""
        store, start = self.values[layer], self.filled

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            end = start + q.size(2)
            store[0, :, :, start:end], store[1, :, :, start:end] = k, v
            # One new position sees everything; a prompt is only ever the first thing in the cache.
            assert start == 0 or q.size(2) == 1
            return F.scaled_dot_product_attention(q, store[0, :, :, :end], store[1, :, :, :end], is_causal=start == 0)

        return attend


@torch.inference_mode()
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
    """Speak one text as codes.

    Args:
        gpt: in evaluation mode.
        latents: the voice, [1, 32, D].
        tokens: text token ids, at most the model's `max_text_tokens`.
        sampling: how codes are drawn.
        generator: source of randomness on the CPU.
        max_codes: give up after this many codes; the model's own limit when not given.
        is_cancelled: asked before each code; never, when not given.

    Raises:
        CancelledError: it was.

    Source: coqui-tts, GPT.generate; its order of repetition penalty, temperature, top-k and top-p is Hugging Face's.
    Stock runs the whole text again for the latents; the hidden states seen while decoding are the same.
    """
    shape = gpt.shape
    limit = min(max_codes or shape.max_audio_tokens, shape.max_audio_tokens - 3)
    prompt = _prompt(gpt, latents, tokens)
    cache = KeyValueCache(gpt, prompt.size(1) + limit)
    spoken = torch.zeros(shape.audio_rows, dtype=torch.bool, device=prompt.device)
    spoken[[FILLER, shape.start_audio]] = True
    codes, hidden_states = [], []
    x = prompt
    for position in range(1, limit + 1):
        if is_cancelled():
            raise CancelledError
        hidden = _advance(gpt, x, cache)
        code = _draw(gpt.mel_head(hidden)[0].float(), spoken, sampling, generator)
        codes.append(code)
        hidden_states.append(hidden)
        if code == shape.stop_audio:
            break
        spoken[code] = True
        x = (gpt.mel_embedding.weight[code] + gpt.mel_pos_embedding.emb.weight[position]).view(1, 1, -1)
    return Decoded(torch.tensor(codes), torch.stack(hidden_states, dim=1), codes[-1] == shape.stop_audio)


def _prompt(gpt: XttsGpt, latents: Tensor, tokens: list[int]) -> Tensor:
    """[voice | START text STOP | start code] with positions added, [1, P + L + 3, D]."""
    shape = gpt.shape
    assert len(tokens) <= shape.max_text_tokens, "the caller splits long text"
    device = gpt.final_norm.weight.device
    text = torch.tensor([[shape.start_text, *tokens, shape.stop_text]], device=device)
    start = torch.tensor([[shape.start_audio]], device=device)
    text_rows = gpt.text_embedding(text) + gpt.text_pos_embedding.first(text.size(1))
    start_row = gpt.mel_embedding(start) + gpt.mel_pos_embedding.first(1)
    return torch.cat([latents.to(text_rows), text_rows, start_row], dim=1)


def _advance(gpt: XttsGpt, x: Tensor, cache: KeyValueCache) -> Tensor:
    """New positions [1, n, D] through all blocks; the last one's normalised state, [1, D]."""
    for layer, block in enumerate(gpt.gpt.h):
        x = block(x, cache.attend(layer))
    cache.filled += x.size(1)
    hidden: Tensor = gpt.final_norm(gpt.gpt.ln_f(x[:, -1]))
    return hidden


def _draw(scores: Tensor, spoken: Tensor, sampling: Sampling, generator: torch.Generator | None) -> int:
    """The next code from its scores, [V]."""
    penalized = torch.where(scores < 0, scores * sampling.repetition_penalty, scores / sampling.repetition_penalty)
    scores = torch.where(spoken, penalized, scores)
    if sampling.temperature == 0:
        return int(scores.argmax())
    scores = scores / sampling.temperature
    if 0 < sampling.top_k < len(scores):
        scores = scores.masked_fill(scores < scores.topk(sampling.top_k).values[-1], float("-inf"))
    ordered, order = scores.softmax(dim=0).sort(descending=True)
    # The code that crosses the limit is kept, so at least one always is.
    ordered[ordered.cumsum(dim=0) - ordered >= sampling.top_p] = 0
    return int(order[torch.multinomial(ordered.cpu(), 1, generator=generator)])
