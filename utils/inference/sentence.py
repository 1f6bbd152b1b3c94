"""A sentence on its way through the decode engine.

Shapes: P = 32 latents, M codes, D model width.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from utils.inference.adapters import Adapter
from utils.options import SpeechSettings


@dataclass(eq=False, kw_only=True)
class Sentence:
    """One sentence to decode, and what was decoded of it so far."""

    latents: Tensor
    """The voice, [1, P, D]."""
    tokens: list[int]
    """Text token ids, at most the model's `max_text_tokens`."""
    settings: SpeechSettings
    limit: int
    """Codes at most; joining lowers it to what the model has positions for."""
    adapter: Adapter | None = None
    """What the voice adds to the weights."""
    generator: torch.Generator | None = None
    """Source of randomness, on the CPU. A number for each code is drawn from it when the sentence joins."""
    codes: list[int] = field(default_factory=list)
    stop_logprobs: list[float] = field(default_factory=list)
    """Log probability of the stop code at each code, before any setting of the sampling."""
    hidden: Tensor | None = None
    """[M, D] once it has left."""
    stopped: bool = False
    """Whether the stop code came."""
