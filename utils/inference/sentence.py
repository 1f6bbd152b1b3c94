"""A sentence on its way through the decode engine, and how the next code of several is drawn.

Shapes: N sentences, P = 32 latents, M codes, V code vocabulary, D model width.
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


def draw(scores: Tensor, spoken: Tensor, sampling: Tensor, random: Tensor, *, is_greedy: bool = False) -> Tensor:
    """The next code of each sentence; nothing is read back from the device.

    Args:
        scores: of the code head, [N, V] float32.
        spoken: which codes the repetition penalty counts, [N, V].
        sampling: temperature, top-k, top-p and penalty of each sentence, [N, 4]; see
            `SpeechSettings`.
        random: of each sentence a number in [0, 1), which chooses among the codes that are left; [N, 1].
        is_greedy: every temperature is 0.

    Returns:
        [N] int64.
    """
    temperature, top_k, top_p, penalty = sampling.split(1, dim=1)
    scores = torch.where(spoken, torch.where(scores < 0, scores * penalty, scores / penalty), scores)
    if is_greedy:
        return scores.argmax(1)
    num, greedy = scores.size(1), temperature == 0
    # Greedy rows take the first of the sorted codes, whatever they are divided by.
    ordered, order = (scores / torch.where(greedy, 1.0, temperature)).sort(dim=1, descending=True, stable=True)
    ranks = torch.arange(num, device=scores.device)
    kept = torch.where(top_k > 0, top_k, float(num))
    # Codes as probable as the last one kept are kept as well, as Hugging Face does.
    least = ordered.gather(1, (kept.long() - 1).clamp(0, num - 1))
    shares = ordered.masked_fill((ranks >= kept) & (ordered < least), float("-inf")).softmax(1)
    # The code that crosses the limit is kept, so at least one always is.
    shares = shares.masked_fill(shares.cumsum(1) - shares >= top_p, 0)
    reached = shares.cumsum(1)
    chosen = (reached <= random * reached[:, -1:]).sum(1, keepdim=True).clamp(max=num - 1)
    return order.gather(1, torch.where(greedy, 0, chosen))[:, 0]
