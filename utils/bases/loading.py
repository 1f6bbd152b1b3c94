"""Load the parts of a base: the GPT for training and the decoder."""

from torch import nn

from utils.bases.base import Base
from utils.model.decoder.build import build_decoder
from utils.model.gpt import ForwardOptions, XttsGpt
from utils.model.weights import DECODER_PREFIX, GPT_PREFIX, load_strictly, part
from utils.model.xtts import build_gpt


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
    load_strictly(decoder, part(base.state(), DECODER_PREFIX), where=str(base.folder))
    return decoder.eval().requires_grad_(False)
