"""Find where sound begins and ends, to trim silence without cutting into syllables.

Shapes: T samples, F frames of 10 ms.
"""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

_HOP_S, _WINDOW_S = 0.01, 0.025
_MARGIN_DB = 6.0
"""What is this much above the noise floor is sound."""
_RANGE_DB = (30.0, 50.0)
"""Below the loudest speech: the threshold is never nearer, so that weak consonants stay, and never further away."""
_SUSTAINED = 5
"""Frames in a row that sound needs: a click, which is in up to three windows, is not the beginning."""


def sound_bounds(wav: Tensor, sample_rate: int, *, lead_s: float, tail_s: float) -> tuple[int, int]:
    """First sample of what is to be kept, and the one after the last.

    Sound is what rises 6 dB above the noise floor (the quietest tenth of the frames), as long as that lies 30 to 50 dB
    below the loudest twentieth. Where noise comes nearer than 30 dB to the speech nothing is cut: better a noisy edge
    than a lost syllable.

    Args:
        wav: mono audio, [1, T].
        sample_rate: in Hz.
        lead_s: kept before the first sound, in seconds.
        tail_s: kept after the last sound, in seconds; weak endings die away in it.

    Returns:
        (start, stop) with 0 <= start < stop <= T; the whole where nothing stands out.
    """
    assert wav.ndim == 2 and wav.shape[0] == 1 and wav.shape[1] > 0, wav.shape
    total = wav.shape[1]
    level = frame_levels(wav, sample_rate)
    floor, loud = np.percentile(level, [10, 95])
    threshold = min(max(floor + _MARGIN_DB, loud - _RANGE_DB[1]), loud - _RANGE_DB[0])
    sounds = _sustained(level > threshold)
    if not sounds.any():
        return 0, total
    hop = round(_HOP_S * sample_rate)
    found = np.flatnonzero(sounds)
    start = int(found[0]) * hop - round(lead_s * sample_rate)
    stop = int(found[-1]) * hop + round((_WINDOW_S + tail_s) * sample_rate)
    return max(0, start), min(total, stop)


def frame_levels(wav: Tensor, sample_rate: int) -> NDArray[np.float64]:
    """Level of each frame in dB below full scale, [F]: 25 ms windows every 10 ms, silence is -120."""
    hop, window = round(_HOP_S * sample_rate), round(_WINDOW_S * sample_rate)
    length = wav.shape[1]
    starts = np.arange(0, max(1, length - window + 1), hop)
    stops = np.minimum(starts + window, length)
    # The zero at the end is what the last frame stops before.
    energy = np.zeros(length + 1)
    np.square(wav[0].numpy(), out=energy[:-1], dtype=np.float64)
    power = np.add.reduceat(energy, np.stack([starts, stops], axis=1).ravel())[::2] / np.maximum(1, stops - starts)
    return 10 * np.log10(np.maximum(power, 1e-12))


def _sustained(above: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Frames that belong to a run of at least `_SUSTAINED`; all of them in a clip too short for one."""
    if len(above) < _SUSTAINED:
        return above
    whole: NDArray[np.bool_] = np.lib.stride_tricks.sliding_window_view(above, _SUSTAINED).min(axis=1)
    kept = np.zeros_like(above)
    for shift in range(_SUSTAINED):
        kept[shift : shift + len(whole)] |= whole
    return kept
