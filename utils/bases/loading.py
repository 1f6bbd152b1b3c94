"""Load the parts of a base: the GPT for training, the decoder and the speaker encoder."""

import hashlib

from torch import nn

from utils.bases.base import Base
from utils.model.decoder.build import build_decoder
from utils.model.gpt import ForwardOptions, XttsGpt
from utils.model.weights import part
from utils.model.xtts import DECODER_PREFIX, GPT_PREFIX, SPEAKER_PREFIX, _load, build_gpt


def load_gpt(base: Base, options: ForwardOptions | None = None) -> XttsGpt:
    """The base's GPT with its weights, in float32 on the CPU; decoder and speaker encoder are not loaded.

    Raises:
        UserError: the weights do not fit the sizes in config.json and vocab.json.
    """
    gpt = build_gpt(base.gpt_shape(), lambda: part(base.state(), GPT_PREFIX), where=str(base.folder), options=options)
    gpt.added_rows = base.added_rows()
    return gpt


def load_decoder(base: Base) -> nn.Module:
    """The base's HiFi-GAN decoder and speaker encoder, ready to speak.

    Raises:
        UserError: the weights do not fit the sizes in config.json.
    """
    decoder = build_decoder(base.decoder_shape())
    _load(decoder, part(base.state(), DECODER_PREFIX), where=str(base.folder))
    return decoder.eval().requires_grad_(False)


def load_speaker_encoder(base: Base) -> nn.Module:
    """The base's speaker encoder alone: [B, N] at 16 000 Hz to [B, E].

    Raises:
        UserError: the weights do not fit the sizes in config.json.
    """
    encoder = build_decoder(base.decoder_shape()).speaker_encoder
    assert isinstance(encoder, nn.Module)
    _load(encoder, part(base.state(), SPEAKER_PREFIX), where=str(base.folder))
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
