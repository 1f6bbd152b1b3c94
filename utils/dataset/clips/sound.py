"""Create a clip's audio in a worker process: decode, clean, measure, write."""

import hashlib
import math
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from utils.audio.clean import Cleaning, clean
from utils.audio.decode import decode
from utils.audio.loudness import loudness
from utils.audio.measure import clipped_share, dc_offset, edge_levels, estimate_snr, fingerprint, speech_share
from utils.audio.resample import resample
from utils.audio.voice_activity import VAD_RATE, load_voice_activity
from utils.audio.write import to_pcm16, write_wav
from utils.config import DATASET_RATE, MIN_CLIP_SECONDS, Channel
from utils.dataset.quality.scorers import Scorers
from utils.dataset.quality.vectors import packed
from utils.dataset.storage.report import Span
from utils.dataset.storage.work import short_hash
from utils.errors import UserError

VERSION = 2
"""Raised when the same settings would give other sound or other measures."""
_EDGES_S = 10.0
"""Decoded beyond the longest clip: silence that trimming may take away again."""


@dataclass(frozen=True, kw_only=True)
class SoundSettings:
    """What all clips of one preparation share."""

    cleaning: Cleaning
    channel: Channel = "mix"
    quality: bool = True
    """Measure how good the sound is."""
    max_samples: int
    """Longest clip, at 22 050 Hz."""

    @property
    def key(self) -> str:
        """Changes when another sound would come out."""
        return short_hash(VERSION, self.cleaning, self.channel)

    @property
    def changes_sound(self) -> bool:
        """Whether clips come out otherwise than they were recorded."""
        return self.cleaning.does_something or self.channel != "mix"


@dataclass(frozen=True, kw_only=True)
class SoundTask:
    """One clip to make."""

    item: str
    """What the result is kept under."""
    spans: tuple[Span, ...]
    """Parts that are joined to the clip."""


@dataclass(frozen=True, kw_only=True)
class Sound:
    """A clip's sound as it was made."""

    fault: str = ""
    """Why it could not be read; all else is then empty."""
    audio_hash: str = ""
    """Of its 16-bit samples at 22 050 Hz before cleaning: the same for copies in any lossless format."""
    wav_hash: str = ""
    """Of its samples after cleaning, as they were written; empty when nothing was, because of its length or silence."""
    num_samples: int = 0
    """After cleaning, at 22 050 Hz."""
    is_silent: bool = False
    is_cut: bool = False
    """Decoding stopped at the longest clip, so the rest is not known."""
    trimmed_s: float = 0.0
    """Taken off the beginning, in seconds."""
    gain_db: float = 0.0
    """Amplification."""
    lost_s: float = 0.0
    """Damaged in the recording, and silent in the clip."""
    measures: dict[str, float] = field(default_factory=dict)
    """See `utils.dataset.quality.measures`."""
    fingerprint: str = ""
    """Base64 of signed bytes."""


@dataclass
class SoundMaker:
    """Makes clips; lives in a worker process.

    Args:
        settings: what all clips share.
        folder: where wavs are written, by content.
        scorers: models that score the finished clip.
    """

    settings: SoundSettings
    folder: Path
    scorers: Scorers

    def make(self, task: SoundTask) -> dict[str, Any]:
        """What came out, by the keys that it is kept under.

        Raises:
            OSError: the wav cannot be written.
        """
        try:
            sound, wav = self._make(task)
        except UserError as error:
            return {task.item: vars(Sound(fault=error.what))}
        scores = self.scorers.score(wav, sound.wav_hash) if sound.wav_hash else {}
        return {task.item: vars(sound), **scores}

    def _make(self, task: SoundTask) -> tuple[Sound, Tensor]:
        lost: list[float] = []
        parts = [self._decode(span, lost) for span in task.spans]
        wav = torch.cat([resample(part, rate, DATASET_RATE) for part, rate, _ in parts], dim=1)
        raw = to_pcm16(wav)
        is_cut = any(cut for _, _, cut in parts)
        sound = Sound(audio_hash=digest(raw), num_samples=raw.shape[1], is_cut=is_cut, lost_s=round(sum(lost), 3))
        if not raw.numpy().any():
            return replace(sound, is_silent=True), wav
        done = clean(wav, DATASET_RATE, self.settings.cleaning)
        pcm = to_pcm16(done.wav)
        trimmed, gain = round(done.start / DATASET_RATE, 4), round(done.gain_db, 2)
        sound = replace(sound, num_samples=pcm.shape[1], trimmed_s=trimmed, gain_db=gain)
        if sound.is_cut or not MIN_CLIP_SECONDS * DATASET_RATE <= pcm.shape[1] <= self.settings.max_samples:
            return sound, done.wav
        sound = replace(sound, wav_hash=digest(pcm))
        write_wav(self.folder / f"{sound.wav_hash}.wav", pcm, DATASET_RATE)
        if self.settings.quality:
            clipping = max(clipped_share(part) for part, _, _ in parts)
            measures = {"clipping": clipping, **measure_sound(wav, done.wav)}
            measures = {name: round(value, 4) for name, value in measures.items()}
            sound = replace(sound, measures=measures, fingerprint=packed(fingerprint(done.wav, DATASET_RATE)))
        return sound, done.wav

    def _decode(self, span: Span, lost_s: list[float]) -> tuple[Tensor, int, bool]:
        """A part's samples [1, N] at its own rate, the rate, and whether there was more than the longest clip takes."""
        longest = self.settings.max_samples / DATASET_RATE + _EDGES_S
        wanted = math.inf if span.end_s is None else span.end_s - span.start_s
        wav, rate = decode(
            Path(span.audio),
            start_s=span.start_s,
            max_seconds=min(longest, wanted),
            channel=self.settings.channel,
            lost_s=lost_s,
        )
        limit = round(min(longest, wanted) * rate)
        return wav[:, :limit], rate, wanted > longest and wav.shape[1] > limit


_voice_activity = cache(load_voice_activity)


def measure_sound(raw: Tensor, cleaned: Tensor) -> dict[str, float]:
    """How good a clip's sound is; both mono at 22 050 Hz, [1, N], before and after cleaning."""
    speech, _ = _voice_activity()(resample(raw, DATASET_RATE, VAD_RATE))
    begins, ends = edge_levels(cleaned, DATASET_RATE)
    level = loudness(cleaned, DATASET_RATE)
    return {
        "dc": dc_offset(raw),
        "snr": estimate_snr(raw, DATASET_RATE, speech),
        "speech": speech_share(speech),
        "loudness": level if math.isfinite(level) else -100.0,
        "begins": begins,
        "ends": ends,
    }


def digest(pcm: Tensor) -> str:
    """Of int16 samples, [1, T], whatever file they came from: 32 hex digits."""
    return hashlib.sha256(pcm.numpy().astype("<i2").tobytes()).hexdigest()[:32]
