"""Read a part of a dataset wav without decoding the rest, as the training loader does for every random crop."""

from pathlib import Path

import soundfile
import torch
from torch import Tensor

from utils.audio.container import unreadable
from utils.options import DATASET_RATE

_PREPARE_AGAIN = "prepare the dataset again"


def num_samples(path: Path) -> int:
    """Length of a wav in samples, from its header.

    Raises:
        UserError: the file is missing or not a sound file.
    """
    try:
        return int(soundfile.info(path).frames)
    except soundfile.LibsndfileError as error:
        raise unreadable(path, f"cannot be read ({error})", fix=_PREPARE_AGAIN) from error


def read_segment(path: Path, start: int, num_samples: int) -> Tensor:
    """Samples `start` to `start + num_samples` of a mono wav at 22 050 Hz.

    Args:
        path: a wav of a prepared dataset.
        start: first sample.
        num_samples: how many; all must exist.

    Returns:
        float32 in [-1, 1], shape [1, num_samples].

    Raises:
        UserError: the file is missing, is not such a wav, or is shorter than asked for.
    """
    assert start >= 0 and num_samples > 0, (start, num_samples)
    try:
        with soundfile.SoundFile(path) as sound:
            if sound.samplerate != DATASET_RATE or sound.channels != 1:
                found = f"{sound.samplerate} Hz with {sound.channels} channels"
                raise unreadable(path, f"is {found}, not {DATASET_RATE} Hz mono", fix=_PREPARE_AGAIN)
            if start + num_samples > sound.frames:
                wanted = f"samples {start} to {start + num_samples}"
                raise unreadable(path, f"has {sound.frames} samples, not {wanted}", fix=_PREPARE_AGAIN)
            sound.seek(start)
            return torch.from_numpy(sound.read(num_samples, dtype="float32"))[None]
    except soundfile.LibsndfileError as error:
        raise unreadable(path, f"cannot be read ({error})", fix=_PREPARE_AGAIN) from error
