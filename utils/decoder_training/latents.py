"""GPT latents of known speech, computed by teacher forcing: the decoder's training input.

Shapes: M codes of a clip, D model width.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from utils.model.gpt import XttsGpt
from utils.model.packing import STOPS, pack


@torch.inference_mode()
def known_latents(
    gpt: XttsGpt, conditioning: Tensor, tokens: Sequence[Tensor], codes: Sequence[Tensor]
) -> list[Tensor]:
    """States that say the codes of each clip, and the stop after them, as decoding hands them on: [M + 1, D] each.

    Args:
        gpt: in evaluation mode.
        conditioning: latents of the voice that all clips are said with, [1, 32, D].
        tokens: texts, [N] each.
        codes: the true codes (teacher forcing), [M] each.
    """
    batch = pack(list(tokens), list(codes), gpt.shape).to(conditioning.device)
    embedded = gpt.embed(batch, conditioning.expand(len(codes), -1, -1))
    hidden = gpt.final_norm(gpt.transform(embedded, batch)).flatten(0, 1)
    # Places stand clip after clip, codes and stops; the first stop is the last state that decoding sees.
    indices = batch.code_indices[: batch.num_code_targets].split([len(clip) + STOPS for clip in codes])
    return [hidden[own[: len(clip) + 1]] for own, clip in zip(indices, codes, strict=True)]
