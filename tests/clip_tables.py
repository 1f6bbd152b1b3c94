"""The table of a run's clips, made of clips that are objects already, and the cached codes of recordings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from utils.bases.base import Base
from utils.training.data.clip_list import ClipList, ClipRow, TrainingClip
from utils.training.data.codes import AudioFiles, encode_missing


def listed(clips: Sequence[TrainingClip]) -> ClipList:
    rows = [
        ClipRow(
            str(clip.audio),
            "",
            clip.speaker,
            clip.num_samples,
            clip.is_native,
            clip.tokens.int().numpy().tobytes(),
            clip.reading.tobytes(),
        )
        for clip in clips
    ]
    counts = [len(clip.codes) for clip in clips]
    starts = np.cumsum([0, *counts[:-1]]).tolist()
    return ClipList.of(rows, np.concatenate([clip.codes for clip in clips]), list(zip(starts, counts, strict=True)))


def cache_codes(clips: list[Path], base: Base, folder: Path, **options: Any) -> dict[Path, NDArray[np.int16]]:
    """Codes of every clip, encoding only those that the cache in `folder` lacks."""
    files = AudioFiles(folder)
    hashes = {clip: files.facts(clip).content for clip in clips}
    files.save()
    cache = encode_missing({audio: clip for clip, audio in hashes.items()}, base, folder, **options)
    spans, codes = (cache.index[audio] for audio in hashes.values()), cache.mapped()
    return {clip: codes[start : start + count] for clip, (start, count) in zip(clips, spans, strict=True)}
