"""The dimensions of a base, read from its config.json and vocab.json."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from utils.errors import UserError
from utils.text.tokenizer import START, STOP, Tokenizer

NUM_LATENTS = 32
"""Conditioning latents that the perceiver makes of any recording."""
NUM_MELS = 80
"""Mel channels of conditioning and DVAE spectrograms."""
NEEDED_ARGUMENTS = (
    "gpt_layers",
    "gpt_n_model_channels",
    "gpt_n_heads",
    "gpt_num_audio_tokens",
    "gpt_start_audio_token",
    "gpt_stop_audio_token",
    "gpt_max_text_tokens",
    "gpt_max_audio_tokens",
    "decoder_input_dim",
    "d_vector_dim",
)
"""Sizes that config.json must give."""
MOST_LAYERS, MOST_SIZE = 1_000, 65_536
"""Larger sizes are a fault of the file: making such a model, to compare it with its weights, would not end."""


@dataclass(frozen=True, kw_only=True)
class GptShape:
    """Sizes and special tokens of the GPT."""

    layers: int
    width: int
    """Model width D."""
    heads: int
    text_rows: int
    """Rows of the text embedding and head: the largest token id + 1."""
    audio_rows: int
    """Rows of the code embedding and head: codes, start and stop."""
    start_text: int
    stop_text: int
    start_audio: int
    stop_audio: int
    max_text_tokens: int
    """Longest text, in tokens, that has position embeddings."""
    max_audio_tokens: int
    """Longest audio, in codes, that has position embeddings."""
    sees_stop: bool = False
    """Whether codes attend to the STOP behind the text in training, as they do in speaking; stock's mask hides it."""

    @property
    def num_codes(self) -> int:
        """Size of the DVAE codebook."""
        return self.audio_rows - 2

    @property
    def text_positions(self) -> int:
        """Rows of the text position table: the text, START and STOP (coqui-tts, GPT.__init__)."""
        return self.max_text_tokens + 2

    @property
    def audio_positions(self) -> int:
        """Rows of the audio position table: the codes, start, stop and one conditioning input (same source)."""
        return self.max_audio_tokens + 3


@dataclass(frozen=True, kw_only=True)
class DecoderShape:
    """Sizes of the HiFi-GAN decoder and the speaker encoder; the defaults are stock's fixed ones."""

    latent_width: int
    """Channels of the GPT latents that the decoder reads."""
    speaker_width: int = 512
    """Length of a speaker embedding."""
    initial_channels: int = 512
    """Channels before the first upsampling layer."""
    speaker_filters: tuple[int, ...] = (32, 64, 128, 256)
    """Channels of the speaker encoder's four stages."""
    speaker_layers: tuple[int, ...] = (3, 4, 6, 3)
    """Blocks of the speaker encoder's four stages."""
    harmonic_source: bool = False
    """Whether the decoder is given a harmonic source; stock's is not."""
    trunk_blocks: int = 0
    """Blocks of the acoustic model, which predicts pitch and mel of each frame before sound is made; 0: none."""
    vocoder_blocks: int = 0
    """Blocks of a vocoder with an inverse STFT, which makes sound of the acoustic model's mels; 0: HiFi-GAN."""
    vocoder_width: int = 320
    """Channels of that vocoder."""

    @property
    def is_stock(self) -> bool:
        """Whether stock coqui-tts can build these sizes."""
        stock = DecoderShape(latent_width=self.latent_width)
        return self == stock


def read_config(folder: Path) -> dict[str, Any]:
    """The base's config.json.

    Raises:
        UserError: missing, not JSON, or not of an XTTS model with a perceiver (version 2).
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(what=f"the model's config.json cannot be read: {error}", where=str(path)) from error
    arguments = config.get("model_args") if isinstance(config, dict) else None
    if not isinstance(arguments, dict) or not arguments.get("gpt_use_perceiver_resampler"):
        raise UserError(what="this is not the config.json of an XTTS v2 model", where=str(path))
    if missing := [name for name in NEEDED_ARGUMENTS if not isinstance(arguments.get(name), int)]:
        raise UserError(what=f"config.json lacks model_args: {', '.join(missing)}", where=str(path))
    for name in NEEDED_ARGUMENTS:
        most = MOST_LAYERS if name == "gpt_layers" else MOST_SIZE
        if not 1 <= arguments[name] <= most:
            raise UserError(what=f"config.json has {name} {arguments[name]}, not 1 to {most:,}", where=str(path))
    return config


def gpt_shape(config: dict[str, Any], tokenizer: Tokenizer) -> GptShape:
    """Sizes of the GPT; text rows and special tokens follow the vocabulary, as in stock's Xtts.init_models.

    config.json's `studio_gpt` holds what stock does not know.
    """
    arguments, own = config["model_args"], config.get("studio_gpt")
    return GptShape(
        layers=arguments["gpt_layers"],
        width=arguments["gpt_n_model_channels"],
        heads=arguments["gpt_n_heads"],
        text_rows=tokenizer.num_rows,
        audio_rows=arguments["gpt_num_audio_tokens"],
        start_text=tokenizer.token_id(START),
        stop_text=tokenizer.token_id(STOP),
        start_audio=arguments["gpt_start_audio_token"],
        stop_audio=arguments["gpt_stop_audio_token"],
        max_text_tokens=arguments["gpt_max_text_tokens"],
        max_audio_tokens=arguments["gpt_max_audio_tokens"],
        sees_stop=isinstance(own, dict) and own.get("sees_stop") is True,
    )


def decoder_shape(config: dict[str, Any]) -> DecoderShape:
    """Sizes of the decoder; config.json's `studio_decoder` holds the ones that stock fixes in code.

    Raises:
        UserError: `studio_decoder` holds something else than these sizes, or a trunk without harmonic source.
    """
    arguments, own = config["model_args"], config.get("studio_decoder") or {}
    if problem := _decoder_problem(own):
        raise UserError(
            what=f"config.json's studio_decoder cannot be used: {problem}",
            fix="take the model's own config.json; one of a newer version of this program needs that version",
        )
    own = {name: tuple(value) if isinstance(value, list) else value for name, value in own.items()}
    return DecoderShape(latent_width=arguments["decoder_input_dim"], speaker_width=arguments["d_vector_dim"], **own)


def _decoder_problem(own: Any) -> str | None:
    """What is wrong with config.json's `studio_decoder`; nothing when it is None."""
    if not isinstance(own, dict):
        return "it is no group of settings"
    if unknown := sorted(own.keys() - DECODER_SIZES.keys()):
        return f"{', '.join(unknown)} is not known here"
    for name, value in own.items():
        if not DECODER_SIZES[name](value):
            return f"{name} is {value!r}"
    if own.get("trunk_blocks") and not (own.get("harmonic_source") or own.get("vocoder_blocks")):
        return "trunk_blocks needs harmonic_source or vocoder_blocks"
    if own.get("vocoder_blocks") and (own.get("harmonic_source") or not own.get("trunk_blocks")):
        return "vocoder_blocks needs trunk_blocks, and goes without harmonic_source"
    return None


def _is_size(value: Any, least: int = 1) -> bool:
    return type(value) is int and value >= least


def _are_four_sizes(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 4 and all(map(_is_size, value))


DECODER_SIZES: dict[str, Callable[[Any], bool]] = {
    "initial_channels": _is_size,
    "speaker_filters": _are_four_sizes,
    "speaker_layers": _are_four_sizes,
    "harmonic_source": lambda value: isinstance(value, bool),
    "trunk_blocks": lambda value: _is_size(value, 0),
    "vocoder_blocks": lambda value: _is_size(value, 0),
    "vocoder_width": _is_size,
}
"""Keys of config.json's `studio_decoder`, and what their values must be."""
