"""The corpus as training reads it: sounds and mel spectrograms in memory-mapped files, phonemes by time.

Shapes: N samples at 24 000 Hz, F DVAE frames (256 samples at 22 050 Hz), C mel channels (80).
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import torch
from numpy.typing import NDArray
from torch import Tensor

from recipes.base.teacher import SAMPLE_RATE, SAMPLES_PER_UNIT
from utils.audio.resample import resample
from utils.errors import UserError
from utils.files import replacing
from utils.model.mel import HOP, dvae_mel
from utils.model.shapes import NUM_MELS
from utils.options import DATASET_RATE

PLAIN_MEL = torch.ones(NUM_MELS)
"""Mels are kept without the base's scale, which is measured on them."""


@dataclass(frozen=True, kw_only=True)
class SpokenClip:
    """One clip of a shard."""

    speaker: str
    text: str
    shard: int
    """Index of its shard in `Speech`."""
    start: int
    """First sample within the shard."""
    num_samples: int
    first_frame: int
    """First DVAE frame within the shard's frames."""
    num_frames: int
    tokens: tuple[int, ...]
    """Phonemes, with the silence (0) at both ends."""
    ends: NDArray[np.float64]
    """Where each phoneme ends, in seconds."""

    def phonemes(self, first: int, count: int) -> NDArray[np.int64]:
        """The phoneme in the middle of each of `count` DVAE frames, [count]; silence beyond the clip's end."""
        times = (np.arange(first, first + count) + 0.5) * HOP / DATASET_RATE
        found = np.searchsorted(self.ends, times, side="right")
        return np.array([*self.tokens, 0])[np.minimum(found, len(self.tokens))]


class Speech:
    """All complete shards of one set; the files that training reads are made beside them at the first use.

    Args:
        work: the recipe's folder.
        name: choosing, reporting, training, or fine_tuning.
        limit: at most this many shards.

    Raises:
        UserError: no shard is complete.
    """

    def __init__(self, work: Path, name: str, *, limit: int | None = None) -> None:
        self.work, self.name, self.limit = work, name, limit
        (work / "features").mkdir(parents=True, exist_ok=True)
        self.clips: list[SpokenClip] = []
        self.by_speaker: dict[str, list[int]] = {}
        """Indices of each speaker's clips."""
        self.shards: list[Path] = []
        """Each shard's file in the corpus."""
        self._sounds: list[NDArray[np.int16]] = []
        self._mels: list[NDArray[np.float16]] = []
        self.refresh()
        if not self.clips:
            raise UserError(
                what=f"the corpus has no complete shard of {name}",
                where=str(work / "corpus"),
                fix="run the corpus stage first",
            )

    def refresh(self) -> None:
        """Add shards that were completed since."""
        for path in sorted((self.work / "corpus").glob(f"{self.name}_[0-9]*.json"))[: self.limit]:
            if path not in self.shards:
                self._add(path, self.work / "features" / path.stem)
                self.shards.append(path)

    def __len__(self) -> int:
        return len(self.clips)

    @property
    def hours(self) -> float:
        """Of speech."""
        return sum(clip.num_samples for clip in self.clips) / SAMPLE_RATE / 3600

    def sound(self, clip: SpokenClip, start: int = 0, count: int | None = None) -> Tensor:
        """[count] samples of a clip, zeros beyond its ends; the whole clip by default."""
        count = clip.num_samples if count is None else count
        first, last = max(0, start), min(clip.num_samples, start + count)
        found = torch.zeros(count)
        if last > first:
            samples = self._sounds[clip.shard][clip.start + first : clip.start + last]
            found[first - start : last - start] = torch.from_numpy(samples.astype(np.float32) / 32767)
        return found

    def mel(self, clip: SpokenClip, start: int = 0, count: int | None = None) -> Tensor:
        """[C, count] DVAE frames of a clip, silence beyond its end; the whole clip by default."""
        count = clip.num_frames if count is None else count
        frames = self._mels[clip.shard][
            clip.first_frame + start : clip.first_frame + min(clip.num_frames, start + count)
        ]
        found = torch.full((NUM_MELS, count), float(np.log(1e-5)))
        found[:, : len(frames)] = torch.from_numpy(frames.astype(np.float32).T)
        return found

    def mel_stats(self) -> Tensor:
        """Scale of each channel, [C]: the standard deviation of its log-mel, as XTTS's DVAE and GPT divide by."""
        frames = np.concatenate([mels[::7].astype(np.float32) for mels in self._mels[:20]])
        return torch.from_numpy(frames.std(0)).clamp(min=0.1)

    def _add(self, path: Path, target: Path) -> None:
        rows = json.loads(path.read_text(encoding="utf-8"))["clips"]
        sound, mels = target.with_suffix(".sound.npy"), target.with_suffix(".mel.npy")
        if not mels.is_file():
            _write_features(path.with_suffix(".flac"), rows, sound, mels)
        first_frame = 0
        for row in rows:
            num_frames = _num_frames(row["num_samples"])
            self.by_speaker.setdefault(row["speaker"], []).append(len(self.clips))
            self.clips.append(
                SpokenClip(
                    **{key: row[key] for key in ("speaker", "text", "start", "num_samples")},
                    shard=len(self._sounds),
                    first_frame=first_frame,
                    num_frames=num_frames,
                    tokens=tuple(row["tokens"]),
                    ends=np.cumsum(row["durations"]) * SAMPLES_PER_UNIT / SAMPLE_RATE,
                )
            )
            first_frame += num_frames
        self._sounds.append(np.load(sound, mmap_mode="r"))
        self._mels.append(np.load(mels, mmap_mode="r"))


def _write_features(flac: Path, rows: list[dict[str, int]], sound: Path, mels: Path) -> None:
    samples, rate = soundfile.read(flac, dtype="int16")
    assert rate == SAMPLE_RATE, "shards are at the teacher's rate"
    spectrogram, frames = dvae_mel(PLAIN_MEL), []
    for row in rows:
        wav = samples[row["start"] : row["start"] + row["num_samples"]].astype(np.float32) / 32767
        mel = spectrogram(resample(torch.from_numpy(wav)[None], SAMPLE_RATE, DATASET_RATE))[0]
        # Resampling may round to a sample more or less than _num_frames counts with.
        count = _num_frames(row["num_samples"])
        mel = torch.nn.functional.pad(mel, (0, max(0, count - mel.shape[1])), mode="replicate")[:, :count]
        frames.append(mel.T.half().numpy())
    for path, content in ((sound, samples), (mels, np.concatenate(frames))):
        with replacing(path) as unfinished, unfinished.open("wb") as file:
            np.save(file, content)


def _num_frames(num_samples: int) -> int:
    """DVAE frames of a clip of this many samples at 24 000 Hz."""
    return num_samples * DATASET_RATE // SAMPLE_RATE // HOP + 1
