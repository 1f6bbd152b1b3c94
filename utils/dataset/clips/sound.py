"""Create a clip's audio in a worker process: decode, clean, measure, write."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from utils.audio.clean import Cleaned, Cleaning, clean, denoise, frame_levels, loudness
from utils.audio.decode import decode
from utils.audio.measure import clipped_share, dc_offset, edge_levels, estimate_snr, fingerprint, speech_share
from utils.audio.resample import resample
from utils.audio.voice_activity import VAD_RATE, load_voice_activity
from utils.audio.write import to_pcm16, write_wav
from utils.dataset.quality.scorers import Scorers, packed
from utils.dataset.storage.report import Span
from utils.dataset.storage.work import short_hash
from utils.errors import UserError
from utils.hardware.environment import keep_freed_memory
from utils.options import DATASET_RATE, MIN_CLIP_SECONDS, Channel

SoundTask = tuple[str, tuple[Span, ...]]
"""One clip to make: what the result is kept under, and the parts that are joined to the clip."""
VERSION = 2
"""Raised when the same settings would give other sound or other measures."""
_EDGES_S = 10.0
"""Decoded beyond the longest clip: silence that trimming may take away again."""


@dataclass(frozen=True, kw_only=True)
class SoundSettings:
    """What all clips of one preparation share."""

    cleaning: Cleaning
    channel: Channel = "mix"
    denoise: bool = False
    """Remove noise, before anything else is done."""
    quality: bool = True
    """Measure how good the sound is."""
    max_samples: int
    """Longest clip, at 22 050 Hz."""

    @property
    def key(self) -> str:
        """Changes when another sound would come out."""
        # Clips that were made before there was such a setting keep their key.
        return short_hash(VERSION, self.cleaning, self.channel, *(["denoise"] if self.denoise else []))

    @property
    def changes_sound(self) -> bool:
        """Whether clips come out otherwise than they were recorded."""
        done = self.cleaning
        cleans = done.trim or done.remove_dc or done.loudness is not None or done.highpass is not None
        return cleans or self.channel != "mix" or self.denoise


@dataclass(frozen=True, kw_only=True)
class ClipSound:
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

    def make(self, tasks: Sequence[SoundTask]) -> list[dict[str, Any]]:
        """What came out of each, by the keys that it is kept under; models see all clips together.

        Where a wav cannot be written, the result ends with the clip before it, so that nothing that is done is lost.

        Raises:
            OSError: the first wav cannot be written.
        """
        _keep_memory()
        made: list[_Made] = []
        for _, spans in tasks:
            try:
                made.append(self._make(spans))
            except OSError:
                if not made:
                    raise
                break
        if self.settings.quality:
            finished = [clip for clip in made if clip.cleaned]
            raws = [resample(clip.raw, DATASET_RATE, VAD_RATE) for clip in finished]
            for clip, speech in zip(finished, _voice_activity().of_clips(raws), strict=True):
                clip.measure(speech)
        scores = self.scorers.score({clip.sound.wav_hash: clip.cleaned.wav for clip in made if clip.cleaned})
        return [
            {item: vars(clip.sound)} | scores.get(clip.sound.wav_hash, {})
            for (item, _), clip in zip(tasks, made, strict=False)
        ]

    def _make(self, spans: tuple[Span, ...]) -> "_Made":
        """The clip without its measures; a UserError becomes its fault."""
        lost: list[float] = []
        try:
            parts = [self._decode(span, lost) for span in spans]
        except UserError as error:
            return _Made(ClipSound(fault=error.what))
        wav = torch.cat([resample(part, rate, DATASET_RATE) for part, rate, _ in parts], dim=1)
        raw = to_pcm16(wav)
        is_cut = any(cut for _, _, cut in parts)
        sound = ClipSound(audio_hash=digest(raw), num_samples=raw.shape[1], is_cut=is_cut, lost_s=round(sum(lost), 3))
        if not raw.numpy().any():
            return _Made(replace(sound, is_silent=True))
        noisy = wav if self.settings.denoise else None
        wav = denoise(wav, DATASET_RATE) if self.settings.denoise else wav
        done = clean(wav, DATASET_RATE, self.settings.cleaning)
        pcm = to_pcm16(done.wav)
        trimmed, gain = round(done.start / DATASET_RATE, 4), round(done.gain_db, 2)
        sound = replace(sound, num_samples=pcm.shape[1], trimmed_s=trimmed, gain_db=gain)
        if sound.is_cut or not MIN_CLIP_SECONDS * DATASET_RATE <= pcm.shape[1] <= self.settings.max_samples:
            return _Made(sound)
        sound = replace(sound, wav_hash=digest(pcm))
        write_wav(self.folder / f"{sound.wav_hash}.wav", pcm, DATASET_RATE)
        clipping = max(clipped_share(part) for part, _, _ in parts) if self.settings.quality else 0.0
        return _Made(sound, wav, done, clipping, noisy)

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


@dataclass
class _Made:
    """A clip on its way; one that is not finished has no audio here."""

    sound: ClipSound
    raw: Tensor = field(default_factory=lambda: torch.empty(1, 0))
    """At 22 050 Hz, [1, N], before cleaning."""
    cleaned: Cleaned | None = None
    clipping: float = 0.0
    noisy: Tensor | None = None
    """As it was before noise was removed."""

    def measure(self, speech: Tensor) -> None:
        """How good the sound is; `speech` is its voice activity, [F]."""
        assert self.cleaned is not None
        wav = self.cleaned.wav
        levels = frame_levels(wav, DATASET_RATE)
        begins, ends = edge_levels(wav, DATASET_RATE, levels)
        level = loudness(wav, DATASET_RATE) if self.cleaned.loudness is None else self.cleaned.loudness
        measures = {
            "clipping": self.clipping,
            "dc": dc_offset(self.raw),
            "snr": estimate_snr(self.raw, DATASET_RATE, speech),
            "speech": speech_share(speech),
            "loudness": level if math.isfinite(level) else -100.0,
            "begins": begins,
            "ends": ends,
        }
        if self.noisy is not None:
            measures["snr_before"] = estimate_snr(self.noisy, DATASET_RATE, speech)
        measures = {name: round(value, 4) for name, value in measures.items()}
        found = packed(fingerprint(wav, DATASET_RATE, levels))
        self.sound = replace(self.sound, measures=measures, fingerprint=found)


_voice_activity = cache(load_voice_activity)
# Fresh pages for the same buffers of each clip took half of the time in which its loudness is measured.
_keep_memory = cache(keep_freed_memory)


def digest(pcm: Tensor) -> str:
    """Of int16 samples, [1, T], whatever file they came from: 32 hex digits."""
    return hashlib.sha256(pcm.numpy().astype("<i2").tobytes()).hexdigest()[:32]
