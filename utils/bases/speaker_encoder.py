"""Load the speaker encoder of a base, and tell two bases' encoders apart."""

import hashlib

from torch import nn

from utils.bases.base import Base
from utils.model.speaker_encoder import build_speaker_encoder
from utils.model.weights import SPEAKER_PREFIX, load_strictly, part


def load_speaker_encoder(base: Base) -> nn.Module:
    """The base's speaker encoder alone: [B, N] at 16 000 Hz to [B, E].

    Raises:
        UserError: the weights do not fit the sizes in config.json.
    """
    encoder = build_speaker_encoder(base.decoder_shape())
    load_strictly(encoder, part(base.state(), SPEAKER_PREFIX), where=str(base.folder))
    return encoder.eval().requires_grad_(False)


def speaker_fingerprint(base: Base) -> str:
    """12 hex digits that change with the speaker encoder's weights: embeddings of two encoders cannot be compared."""
    found = part(base.state(), SPEAKER_PREFIX)
    digest = hashlib.sha256()
    for name in sorted(found):
        # A sample of each tensor distinguishes two trainings; all of a 2 GB checkpoint need not be read for that.
        digest.update(f"{name}{tuple(found[name].shape)}".encode())
        digest.update(found[name].flatten()[:64].float().numpy().tobytes())
    return digest.hexdigest()[:12]
