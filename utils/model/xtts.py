"""Building the parts of XTTS from a base: the GPT for training, the decoder for speaking."""

import hashlib
import logging
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from utils.errors import UserError
from utils.model.architecture import DecoderShape, GptShape
from utils.model.base import Base
from utils.model.gpt import ForwardOptions, XttsGpt
from utils.model.weights import State, part

GPT_PREFIX = "gpt."
DECODER_PREFIX = "hifigan_decoder."
SPEAKER_PREFIX = f"{DECODER_PREFIX}speaker_encoder."


def load_gpt(base: Base, options: ForwardOptions | None = None) -> XttsGpt:
    """The base's GPT with its weights, in float32 on the CPU; decoder and speaker encoder are not loaded.

    Raises:
        UserError: the weights do not fit the sizes in config.json and vocab.json.
    """
    gpt = build_gpt(base.gpt_shape(), part(base.state(), GPT_PREFIX), where=str(base.folder), options=options)
    gpt.added_rows = base.added_rows()
    return gpt


def build_gpt(shape: GptShape, state: State, *, where: str, options: ForwardOptions | None = None) -> XttsGpt:
    """A GPT of these sizes holding these weights.

    Raises:
        UserError: the weights do not fit, with both sizes named.
    """
    # Built without memory first: initialising 441 M weights that are overwritten at once takes seconds.
    with torch.device("meta"):
        gpt = XttsGpt(shape, options)
    gpt.to_empty(device="cpu")
    _load(gpt, state, where=where)
    return gpt.float()


def build_decoder(shape: DecoderShape) -> nn.Module:
    """HiFi-GAN and speaker encoder of these sizes, with random weights."""
    from TTS.encoder.models.resnet import ResNetSpeakerEncoder
    from TTS.tts.layers.xtts.hifigan_decoder import HifiDecoder

    decoder = HifiDecoder(
        decoder_input_dim=shape.latent_width,
        d_vector_dim=shape.speaker_width,
        upsample_initial_channel_decoder=shape.initial_channels,
    )
    if shape.harmonic_source:
        from utils.model.harmonic import harmonic_generator

        decoder.waveform_decoder = harmonic_generator(shape)
    if not shape.is_stock:
        decoder.speaker_encoder = ResNetSpeakerEncoder(
            input_dim=64,
            proj_dim=shape.speaker_width,
            layers=list(shape.speaker_layers),
            num_filters=list(shape.speaker_filters),
            log_input=True,
            use_torch_spec=True,
            audio_config=decoder.speaker_encoder_audio_config,
        )
    return decoder


def load_decoder(base: Base) -> nn.Module:
    """The base's HiFi-GAN decoder and speaker encoder, ready to speak.

    Raises:
        UserError: the weights do not fit the sizes in config.json.
    """
    decoder = build_decoder(base.decoder_shape())
    _load(decoder, part(base.state(), DECODER_PREFIX), where=str(base.folder))
    return decoder.eval().requires_grad_(False)


def load_speaker_encoder(base: Base) -> nn.Module:
    """The base's speaker encoder alone: hears [B, N] at 16 000 Hz, gives [B, E].

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
        # A sample of each tensor tells two trainings apart; all of a 2 GB checkpoint need not be read for that.
        digest.update(f"{name}{tuple(found[name].shape)}".encode())
        digest.update(found[name].flatten()[:64].float().numpy().tobytes())
    return digest.hexdigest()[:12]


def full_state(gpt: Mapping[str, Tensor], decoder: Mapping[str, Tensor], mel_stats: Tensor) -> State:
    """All tensors of a model under the names that stock's Xtts loads strictly."""
    return {
        **{GPT_PREFIX + name: tensor for name, tensor in gpt.items()},
        **{DECODER_PREFIX + name: tensor for name, tensor in decoder.items()},
        "mel_stats": mel_stats,
    }


def initialize_gpt(gpt: XttsGpt) -> None:
    """Weights to start training from nothing, in place: N(0, 0.02), residual projections narrower by sqrt(2 layers).

    Source: GPT-2 (Radford et al. 2019), as in Hugging Face's GPT2PreTrainedModel._init_weights.
    """
    for module in gpt.modules():
        if isinstance(module, nn.Embedding | nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    for name, parameter in gpt.gpt.named_parameters():
        if name.endswith("c_proj.weight"):
            nn.init.normal_(parameter, std=0.02 / (2 * gpt.shape.layers) ** 0.5)


def _load(module: nn.Module, state: State, *, where: str) -> None:
    """Load strictly, naming the first tensor that is missing, left over or of another size."""
    own = module.state_dict()
    missing, extra = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    if missing or extra:
        raise UserError(
            what=f"the weights do not belong to this model: missing {missing[:3]}, unknown {extra[:3]}", where=where
        )
    for name, tensor in own.items():
        if tensor.shape != state[name].shape:
            raise UserError(
                what=f"{name} has {tuple(state[name].shape)} in the weights, {tuple(tensor.shape)} by the settings",
                where=where,
                fix="use the vocab.json and config.json that belong to these weights",
            )
    module.load_state_dict(state)
    logging.getLogger(__name__).debug("loaded %d tensors from %s", len(state), where)
