"""Remove noise with RNNoise (Valin 2018), a recurrent network whose weights lie in the package pyrnnoise."""

import ctypes
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from utils.audio.resample import resample
from utils.errors import UserError

RATE = 48_000
"""That RNNoise was trained at, in Hz."""
_FRAME = 480
_DELAY = 2 * _FRAME
"""Its output is two frames late."""
_FULL_SCALE = 32_768.0


def has_denoiser() -> bool:
    """Whether the package is installed."""
    return find_spec("pyrnnoise") is not None


def require_denoiser() -> None:
    """Do nothing where the package is installed.

    Raises:
        UserError: it is not.
    """
    if not has_denoiser():
        raise UserError(
            what="denoising needs the package pyrnnoise, which is not installed",
            where="denoise",
            fix="pip install -r requirements-denoise.txt -c requirements.lock, or leave it out",
        )


def denoise(wav: Tensor, sample_rate: int) -> Tensor:
    """The clip without what RNNoise takes for noise, in time with the original; the same input gives the same samples.

    Args:
        wav: mono audio, float32, [1, T].
        sample_rate: in Hz.

    Returns:
        [1, T].

    Raises:
        UserError: the package is not installed.
    """
    require_denoiser()
    from pyrnnoise import rnnoise

    length = wav.shape[1]
    given = resample(wav, sample_rate, RATE)[0].numpy()
    frames = np.zeros((-(-(len(given) + _DELAY) // _FRAME), _FRAME), dtype=np.float32)
    frames.reshape(-1)[: len(given)] = given * _FULL_SCALE
    state = rnnoise.create()
    try:
        for frame in frames:
            place = frame.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
            rnnoise.lib.rnnoise_process_frame(state, place, place)
    finally:
        rnnoise.destroy(state)
    cleaned = torch.from_numpy(frames.reshape(1, -1)[:, _DELAY : _DELAY + len(given)] / _FULL_SCALE)
    back = resample(cleaned, RATE, sample_rate)[:, :length]
    return torch.nn.functional.pad(back, (0, length - back.shape[1]))
