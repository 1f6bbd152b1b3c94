"""Clean one clip: remove DC offset and rumble, trim silence, normalize loudness; report each change.

Shapes: C channels, T samples before, U <= T after, F frames of 10 ms, B gating blocks of 0.4 s, one every 0.1 s.
"""

import ctypes
import math
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

import numpy as np
import torch
from numpy.typing import NDArray
from pyloudnorm.iirfilter import IIRfilter
from scipy.signal import butter, sosfilt, sosfiltfilt
from torch import Tensor

from utils.audio.resample import resample
from utils.errors import UserError

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


CEILING = 10 ** (-1 / 20)
"""Highest peak after amplification: -1 dBFS, room for what resampling may add between the samples."""
_GATE_S, _OVERLAP = 0.4, 0.75
"""Length of a gating block of BS.1770: shorter sounds are repeated until they fill one."""
_ABSOLUTE, _RELATIVE = -70.0, -10.0
"""Gates, in LUFS and in LU below the mean of the blocks that pass the first."""
_OFFSET = -0.691
_CHANNEL_GAINS = (1.0, 1.0, 1.0, 1.41, 1.41)


def loudness(wav: Tensor, sample_rate: int) -> float:
    """Integrated loudness in LUFS; -inf where nothing is louder than the gate of -70 LUFS.

    Args:
        wav: audio in [-1, 1], [C, T] with C up to 5.
        sample_rate: in Hz.

    Source: ITU-R BS.1770-4; filters and blocks are those of pyloudnorm.
    """
    return _gated(_block_powers(wav, sample_rate))


def normalize_loudness(wav: Tensor, sample_rate: int, target: float) -> tuple[Tensor, float, float]:
    """Speech at the wanted loudness, or as near to it as its peaks allow: nothing is limited or clipped.

    Args:
        wav: audio in [-1, 1], [C, T].
        sample_rate: in Hz.
        target: in LUFS.

    Returns:
        The audio, the gain that was applied in dB, and the loudness after it in LUFS; silence as it was, with 0.
    """
    powers = _block_powers(wav, sample_rate)
    measured = _gated(powers)
    peak = float(np.abs(wav.numpy()).max())
    if not math.isfinite(measured) or peak == 0:
        return wav, 0.0, measured
    # A peak that is above the ceiling already is no reason to make a quiet target louder or quieter than asked for.
    gain = min(10 ** ((target - measured) / 20), max(CEILING / peak, 1e-6))
    # Amplified blocks may pass the absolute gate, so the loudness after is not always the one before plus the gain.
    return wav * gain, 20 * math.log10(gain), _gated(powers * gain**2)


def _block_powers(wav: Tensor, sample_rate: int) -> NDArray[np.float64]:
    """K-weighted power of each gating block over all channels, [B]."""
    samples = wav.numpy().astype(np.float64)
    shortest = math.ceil(_GATE_S * sample_rate)
    if samples.shape[1] < shortest:
        samples = np.tile(samples, (1, -(-shortest // max(1, samples.shape[1]))))
    weighted = sosfilt(_weighting(sample_rate), samples, axis=1)
    power = np.einsum("ct,ct,c->t", weighted, weighted, _CHANNEL_GAINS[: len(samples)])
    step = 1 - _OVERLAP
    count = round((len(power) / sample_rate - _GATE_S) / (_GATE_S * step)) + 1
    blocks = [((np.arange(count) * step + end) * _GATE_S * sample_rate).astype(int) for end in (0, 1)]
    starts, stops = np.minimum(blocks, len(power))
    # Blocks overlap: each stretch between two of their edges is summed once.
    edges = np.unique([starts, stops])
    total = np.concatenate([[0.0], np.cumsum(np.add.reduceat(power[: edges[-1]], edges[:-1]))])
    return (total[np.searchsorted(edges, stops)] - total[np.searchsorted(edges, starts)]) / (_GATE_S * sample_rate)


def _gated(powers: NDArray[np.float64]) -> float:
    """Loudness of the blocks that are neither silent nor far below the others, in LUFS."""
    with np.errstate(divide="ignore"):
        levels = _OFFSET + 10 * np.log10(powers)
        if not (levels >= _ABSOLUTE).any():
            return -math.inf
        relative = _OFFSET + 10 * np.log10(powers[levels >= _ABSOLUTE].mean()) + _RELATIVE
        kept = powers[(levels > relative) & (levels > _ABSOLUTE)]
        return _OFFSET + 10 * math.log10(kept.mean()) if len(kept) else -math.inf


@lru_cache(maxsize=8)
def _weighting(sample_rate: int) -> NDArray[np.float64]:
    """The K-weighting's two filters as second-order sections, [2, 6]."""
    high_shelf = IIRfilter(4.0, 1 / math.sqrt(2), 1_500.0, sample_rate, "high_shelf")
    high_pass = IIRfilter(0.0, 0.5, 38.0, sample_rate, "high_pass")
    return np.array([np.concatenate([section.b, section.a]) for section in (high_shelf, high_pass)])


_ORDER = 2
"""Of the high-pass; run forwards and backwards it falls by 24 dB an octave and delays nothing."""


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """What is done to each clip; None or False leaves it as it is."""

    loudness: float | None = None
    """Target in LUFS."""
    trim: bool = False
    """Cut silence at the edges."""
    lead_s: float = 0.1
    """Kept before the first sound, in seconds."""
    tail_s: float = 0.25
    """Kept after the last sound, in seconds."""
    remove_dc: bool = False
    """Subtract the mean of the samples."""
    highpass: float | None = None
    """Frequency below which sound is taken out, in Hz."""


@dataclass(frozen=True, kw_only=True)
class Cleaned:
    """A clip after cleaning."""

    wav: Tensor
    """Mono float32, [1, U]."""
    start: int
    """Sample of the given audio that it begins with."""
    gain_db: float
    """Amplification."""
    loudness: float | None = None
    """In LUFS; None where loudness was not asked for."""


def clean(wav: Tensor, sample_rate: int, cleaning: Cleaning) -> Cleaned:
    """The clip as the settings want it; the same input gives the same samples.

    Args:
        wav: mono audio, float32, [1, T] with T > 0.
        sample_rate: in Hz.
        cleaning: what to do.
    """
    if cleaning.remove_dc:
        wav = wav - wav.mean()
    if cleaning.highpass is not None:
        wav = high_pass(wav, sample_rate, cleaning.highpass)
    start, gain, loudness = 0, 0.0, None
    if cleaning.trim:
        start, stop = sound_bounds(wav, sample_rate, lead_s=cleaning.lead_s, tail_s=cleaning.tail_s)
        wav = wav[:, start:stop]
    if cleaning.loudness is not None:
        wav, gain, loudness = normalize_loudness(wav, sample_rate, cleaning.loudness)
    return Cleaned(wav=wav, start=start, gain_db=gain, loudness=loudness)


def high_pass(wav: Tensor, sample_rate: int, frequency: float) -> Tensor:
    """Sound above a frequency, in phase with the original; at the frequency itself 6 dB are lost.

    Args:
        wav: [1, T].
        sample_rate: in Hz.
        frequency: in Hz, below half of the rate.
    """
    sections = butter(_ORDER, frequency, btype="highpass", fs=sample_rate, output="sos")
    # Mirrored at the edges over as much as there is: the filter's own default refuses clips of a few samples.
    edge = min(wav.shape[1] - 1, round(sample_rate / frequency))
    filtered = sosfiltfilt(sections, wav.numpy().astype(np.float64), axis=1, padlen=max(0, edge))
    return torch.from_numpy(np.ascontiguousarray(filtered, dtype=np.float32))


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
