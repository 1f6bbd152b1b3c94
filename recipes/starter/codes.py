"""Stage C: the codes of every corpus clip, in the project's own code cache below `work/codes`.

Training finds them there when its dataset's codes folder is this one or a link to it: the cache is keyed by the hash of
each audio file and the fingerprint of the DVAE.
"""

import time
from pathlib import Path

import numpy as np

from recipes.starter.corpus import read_manifest
from utils.bases.base import Base
from utils.options import CODE_SAMPLES, DATASET_RATE
from utils.training.data.codes import cache_codes


def run(work: Path) -> None:
    """Encode what is not encoded yet, in float32 with the saved DVAE, and count the codes that occur."""
    started = time.time()

    def progress(phase: str, done: int, total: int | None) -> None:
        if done % 1000 == 0 or done == total:
            print(f"codes: {phase}, {done} of {total} clips", flush=True)

    manifests = sorted((work / "corpus").glob("metadata_*.csv"))
    clips = list(dict.fromkeys(path for manifest in manifests for path, _, _ in read_manifest(manifest)))
    codes = cache_codes(clips, Base(work / "dvae"), work / "codes", progress=progress)
    counts = np.bincount(np.concatenate([codes[clip] for clip in clips]), minlength=1024)
    share = counts[counts > 0] / counts.sum()
    hours = counts.sum() * CODE_SAMPLES / DATASET_RATE / 3600
    print(
        f"codes: {counts.sum()} codes of {len(clips)} clips, {hours:.2f} hours, "
        f"{len(share)} codes used, perplexity {np.exp(-(share * np.log(share)).sum()):.0f}, "
        f"{time.time() - started:.0f} s"
    )
