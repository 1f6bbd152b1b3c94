"""The table of a run's clips, made of clips that are objects already."""

from collections.abc import Sequence

import numpy as np

from utils.training.data.clip_list import ClipList, ClipRow, TrainingClip


def listed(clips: Sequence[TrainingClip]) -> ClipList:
    rows = [
        ClipRow(
            str(clip.audio),
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
