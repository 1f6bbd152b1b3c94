"""Load the decoder of a base, which makes sound of latents."""

from torch import nn

from utils.bases.base import Base
from utils.model.decoder.build import build_decoder
from utils.model.weights import DECODER_PREFIX, NoRandomWeights, load_strictly, part


def load_decoder(base: Base) -> nn.Module:
    """The base's HiFi-GAN decoder and speaker encoder, ready to speak.

    Raises:
        UserError: the weights do not fit the sizes in config.json.
    """
    with NoRandomWeights():
        decoder = build_decoder(base.decoder_shape())
    load_strictly(decoder, part(base.state(), DECODER_PREFIX), where=str(base.folder))
    return decoder.eval().requires_grad_(False)
