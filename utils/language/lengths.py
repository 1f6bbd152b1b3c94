"""Lengths of a dataset's clips and texts, and limits to train with, from file headers alone."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from utils.audio.decode import decode
from utils.audio.sound_file import SoundFile
from utils.bases.amharic import language_tokenizer
from utils.bases.base import Base
from utils.callbacks import ProgressFn
from utils.dataset.storage.manifest import Clip, read_manifest
from utils.errors import UserError
from utils.model.packing import round_up
from utils.options import CODE_SAMPLES, DATASET_RATE, MIN_CLIP_SECONDS
from utils.text.tokenizer import Tokenizer
from utils.training.data.clip_list import tokens_of

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.5, 100.0)
LIMIT_PERCENTILE = 99.5
"""Limits are set here: the few clips beyond are often faults, and each batch is planned for the longest."""
AUDIO_MULTIPLE = 256
"""Samples: the hop of the conditioning mel, so that the longest clip is a whole number of frames."""
TEXT_MULTIPLE = 8
"""Tokens: tensor cores take half-precision matrices in multiples of 8 (NVIDIA, Matrix Multiplication Background)."""


@dataclass(frozen=True, kw_only=True)
class LengthReport:
    """Lengths of the clips that can be trained on, and what that means for the limits."""

    samples: NDArray[np.int64]
    """Of each clip at 22 050 Hz, in no order that matters."""
    tokens: NDArray[np.int64]
    """Text tokens of each clip, language token included, in the same order."""
    max_samples: int
    """Longest audio that the base has positions for, in samples."""
    max_tokens: int
    """Longest text that the base has positions for."""
    dropped: list[dict[str, str]] = field(default_factory=list)
    """{clip, reason} of every clip that was not counted."""

    @property
    def num_codes(self) -> NDArray[np.int64]:
        """Audio codes of each clip, one per 1 024 samples begun."""
        return -(-self.samples // CODE_SAMPLES)

    @property
    def seconds(self) -> NDArray[np.float64]:
        return self.samples / DATASET_RATE

    @property
    def max_audio_length(self) -> int:
        """Recommended limit for clips, in samples: the 99.5th percentile rounded up, within what the base takes."""
        return min(round_up(int(percentile(self.samples, LIMIT_PERCENTILE)), AUDIO_MULTIPLE), self.max_samples)

    @property
    def max_text_length(self) -> int:
        """Recommended limit for texts, in tokens: likewise."""
        return min(round_up(int(percentile(self.tokens, LIMIT_PERCENTILE)), TEXT_MULTIPLE), self.max_tokens)

    def num_beyond(self, max_audio_length: int, max_text_length: int) -> int:
        """Clips that such limits would exclude."""
        return int(((self.samples > max_audio_length) | (self.tokens > max_text_length)).sum())


def measure_lengths(
    csv: Path, base: Base, language: str, *, use_amharic_g2p: bool = False, progress: ProgressFn | None = None
) -> LengthReport:
    """Lengths of all clips of a table.

    Args:
        csv: a manifest or any table that preparing reads.
        base: whose tokenizer and limits count.
        language: code of the transcripts' language.
        use_amharic_g2p: read Amharic in its Latin form, as training with that setting does.
        progress: called with the phase, clips done, and clips in all.

    Raises:
        UserError: the table cannot be read, the base cannot read the language, or no clip can be measured.
    """
    clips, shape = read_manifest(csv), base.gpt_shape()
    tokenizer = language_tokenizer(base, language, use_amharic_g2p=use_amharic_g2p)
    code = tokenizer.check_language(language)
    samples, tokens, dropped = _measured(clips, tokenizer, code, progress)
    if not samples:
        about = f"; the first, {dropped[0]['clip']}: {dropped[0]['reason']}" if dropped else ""
        raise UserError(
            what=f"no clip can be measured{about}", where=str(csv), fix="correct the table or its recordings"
        )
    return LengthReport(
        samples=np.array(samples, dtype=np.int64),
        tokens=np.array(tokens, dtype=np.int64),
        max_samples=(shape.max_audio_tokens - 1) * CODE_SAMPLES,
        max_tokens=shape.max_text_tokens,
        dropped=dropped,
    )


def percentile(lengths: NDArray[np.int64] | NDArray[np.float64], percent: float) -> float:
    """The length that this share of clips does not exceed; always one that occurs, rather than a value between two."""
    return float(np.percentile(lengths, percent, method="higher"))


def _measured(
    clips: list[Clip], tokenizer: Tokenizer, language: str, progress: ProgressFn | None
) -> tuple[list[int], list[int], list[dict[str, str]]]:
    """Samples and tokens of each clip that can be trained on, and {clip, reason} of each that cannot."""
    samples, tokens, dropped = [], [], []
    for done, clip in enumerate(clips, start=1):
        try:
            num_tokens = len(tokens_of(clip.text, tokenizer, language))
            num_samples = _num_samples(clip.audio)
        except UserError as error:
            dropped.append({"clip": clip.audio.name, "reason": error.what})
        else:
            samples.append(num_samples)
            tokens.append(num_tokens)
        if progress is not None:
            progress("measuring clips", done, len(clips))
    return samples, tokens, dropped


def _num_samples(audio: Path) -> int:
    """Samples at 22 050 Hz by the file's header; what libsndfile cannot read is decoded, for the truth.

    Raises:
        UserError: the file is missing, cannot be read as sound, or is too short to train on.
    """
    try:
        with SoundFile(audio) as sound:
            frames, rate = sound.frames, sound.samplerate
    # TypeError: libsndfile takes some file names for headerless telephone audio, whatever the content.
    except (soundfile.LibsndfileError, TypeError):
        wav, rate = decode(audio)
        frames = wav.shape[1]
    if frames < MIN_CLIP_SECONDS * rate:
        raise UserError(what=f"{frames / rate:.2f} s is shorter than {MIN_CLIP_SECONDS} s")
    return -(-frames * DATASET_RATE // rate)
