"""Flag clips whose measures stand out, with the reason.

Measures of one clip: dc (share of full scale), clipping (share of samples), snr (dB) and snr_before (dB, before noise
was removed), speech (share of the time), lost (seconds that are damaged in the recording), loudness (LUFS), begins and
ends (dB relative to the speech), rate (letters a second), mos (DNSMOS, 1 to 5), voice (similarity to the other clips of
the speaker, -1 to 1), cer (character error rate of the recognized text).
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from utils.dataset.quality.scorers import unpacked
from utils.dataset.storage.report import ClipReport, Flag
from utils.text.error_rate import letters

LIKENESS = 0.9
"""From here on two fingerprints are one recording's; other clips of one voice stay below 0.6."""
_LENGTH = 0.06
"""Copies differ in length by no more than this share: what trimming leaves at their edges."""
_BLOCK = 512
_MAD = 1.4826
"""From the median distance to the median to the standard deviation of a normal distribution."""
_FEWEST = 8
"""Clips that it takes to say that one stands out among them."""


# From where on a measure is worth a look.
DC, CLIPPING, SNR, SPEECH, MOS = 0.02, 0.001, 15.0, 0.3, 2.2
QUIETER = 3.0
"""LU below the loudness asked for: a peak held the amplification back."""
EDGE = -8.0
"""dB: a clip that begins or ends as loud as this begins or ends within a word."""
SPREAD = 4.0
"""Standard deviations from the others: speaking rate and voice."""
RATE = 1.7
"""Times faster or slower than usual: what is nearer may be a list, or a word or two."""
VOICE = 0.4
"""Likeness above which a voice is never called another one."""


def flag_clips(
    clips: Sequence[ClipReport],
    *,
    voices: dict[str, str],
    loudness: float | None,
    max_cer: float = 0.3,
) -> list[ClipReport]:
    """The clips with their rate and voice measured and everything flagged that stands out.

    Args:
        clips: those in use; none is dropped or reordered.
        voices: packed speaker embeddings, by wav hash.
        loudness: that was asked for, in LUFS.
        max_cer: share of the transcript's letters that the recognized text may have otherwise.
    """
    rates = [{"rate": round(len(letters(clip.text)) / clip.seconds, 2)} if clip.seconds else {} for clip in clips]
    measured = [replace(clip, measures=clip.measures | rate) for clip, rate in zip(clips, rates, strict=True)]
    measured = _with_voices(measured, voices)
    flags: list[list[Flag]] = [_own_flags(clip, max_cer, loudness) for clip in measured]
    for found in (
        _rate_flags(measured),
        _voice_flags(measured),
        _same_texts(measured),
        _near_copies(measured),
    ):
        for number, flag in found.items():
            flags[number].append(flag)
    return [replace(clip, flags=tuple(found)) for clip, found in zip(measured, flags, strict=True)]


def outliers(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values lie more than `SPREAD` standard deviations from the median; none of fewer than eight.

    The deviation is estimated from the median distance to the median, which the outliers themselves do not move
    (Hampel's identifier).
    """
    if len(values) < _FEWEST:
        return np.zeros(len(values), dtype=bool)
    distance = np.abs(values - np.median(values))
    return distance > SPREAD * max(_MAD * float(np.median(distance)), 1e-3)


def _own_flags(clip: ClipReport, max_cer: float, loudness: float | None) -> list[Flag]:
    """What a clip shows without the others."""
    # What was not measured stands out nowhere.
    m = dict.fromkeys(("lost", "clipping", "dc", "cer"), 0.0) | {"snr": 99.0, "speech": 1.0, "mos": 5.0}
    m |= dict.fromkeys(("begins", "ends"), -99.0) | clip.measures
    words = f"Whisper recognized: {clip.heard[:120]!r}"
    found: list[tuple[bool, str, str]] = [
        (m["lost"] > 0, "damaged", f"{m['lost']:.2f} s of the recording cannot be decoded"),
        (m["snr"] < SNR, "noise", f"signal-to-noise ratio {m['snr']:.0f} dB, below {SNR:.0f} dB"),
        (m["clipping"] > CLIPPING, "clipping", f"{m['clipping']:.2%} of the samples are clipped"),
        (m["speech"] < SPEECH, "little speech", f"{m['speech']:.0%} of the clip is speech"),
        (abs(m["dc"]) > DC and not clip.cleaning, "offset", f"DC offset {m['dc']:+.3f}"),
        (m["begins"] > EDGE, "cut beginning", "the clip starts in the middle of speech"),
        (m["ends"] > EDGE, "cut end", "the clip ends in the middle of speech"),
        (m["cer"] > max_cer, "transcript", f"{m['cer']:.0%} of the characters differ; {words}"),
        (m["mos"] < MOS, "sound quality", f"DNSMOS {m['mos']:.1f}, below {MOS}"),
    ]
    if loudness is not None and clip.cleaning and m.get("loudness", loudness) < loudness - QUIETER:
        found.append((True, "quiet", f"{m['loudness']:.0f} LUFS: peaks prevent {loudness:.0f} LUFS"))
    return [Flag(measure, detail) for is_flagged, measure, detail in found if is_flagged]


def _rate_flags(clips: list[ClipReport]) -> dict[int, Flag]:
    """Texts far too long or short for their sound: the words of another clip, or half of them."""
    rates = np.array([max(clip.measures.get("rate", 0.0), 0.01) for clip in clips])
    usual = float(np.median(rates)) if len(rates) else 0.0
    far = np.abs(np.log(rates / max(usual, 0.01))) > np.log(RATE)
    return {
        int(n): Flag("speaking rate", f"{rates[n]:.1f} characters per second, median {usual:.1f}; check the transcript")
        for n in np.flatnonzero(outliers(np.log(rates)) & far)
    }


def _with_voices(clips: list[ClipReport], voices: dict[str, str]) -> list[ClipReport]:
    """Each clip with its likeness to the middle of its speaker's other clips."""
    likeness: dict[int, float] = {}
    for numbers in _grouped(clips, lambda clip: clip.speaker if clip.wav_hash in voices else None):
        vectors = unpacked([voices[clips[n].wav_hash] for n in numbers])
        rest = vectors.sum(axis=0) - vectors
        rest /= np.maximum(np.linalg.norm(rest, axis=1, keepdims=True), 1e-9)
        if len(numbers) > 1:
            likeness |= dict(zip(numbers, (vectors * rest).sum(axis=1).tolist(), strict=True))
    return [
        replace(clip, measures=clip.measures | {"voice": round(likeness[n], 3)}) if n in likeness else clip
        for n, clip in enumerate(clips)
    ]


def _voice_flags(clips: list[ClipReport]) -> dict[int, Flag]:
    """Clips that sound like another speaker than the speaker's other clips do."""
    found = {}
    for numbers in _grouped(clips, lambda clip: clip.speaker if "voice" in clip.measures else None):
        values = np.array([clips[n].measures["voice"] for n in numbers])
        usual = float(np.median(values))
        for at in np.flatnonzero(outliers(values) & (values < min(usual, VOICE))):
            detail = (
                f"similarity {values[at]:.2f} to the other clips of {clips[numbers[at]].speaker}, median {usual:.2f}"
            )
            found[numbers[at]] = Flag("another voice", detail)
    return found


def _same_texts(clips: list[ClipReport]) -> dict[int, Flag]:
    found = {}
    for numbers in _grouped(clips, lambda clip: letters(clip.text) or None):
        for n in numbers[1:]:
            found[n] = Flag("same text", f"same words as {clips[numbers[0]].name}")
    return found


def _near_copies(clips: list[ClipReport]) -> dict[int, Flag]:
    """A clip without a fingerprint is compared with none."""
    numbers = [n for n, clip in enumerate(clips) if clip.fingerprint]
    if not numbers:
        return {}
    vectors = unpacked([clips[n].fingerprint for n in numbers])
    seconds = np.array([clips[n].seconds for n in numbers])
    return {
        numbers[later]: Flag(
            "nearly the same sound", f"duplicate of {clips[numbers[first]].name} (similarity {like:.2f})"
        )
        for later, (first, like) in near_copies(vectors, seconds).items()
    }


def _grouped(clips: Sequence[ClipReport], key: Callable[[ClipReport], str | None]) -> list[list[int]]:
    """Positions of clips with the same key, in order; those without one are skipped."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for number, clip in enumerate(clips):
        name = key(clip)
        if name is not None:
            groups[name].append(number)
    return list(groups.values())


def near_copies(vectors: NDArray[np.float32], seconds: NDArray[np.float64]) -> dict[int, tuple[int, float]]:
    """For each clip that is nearly the same as an earlier one: which, and how alike they are.

    Args:
        vectors: fingerprints, unit vectors, [count, size].
        seconds: length of each clip, [count].

    Returns:
        {number of the later clip: (number of the earliest one like it, likeness)}.
    """
    order = np.argsort(seconds, kind="stable")
    lengths, sorted_vectors = seconds[order], vectors[order]
    found: dict[int, tuple[int, float]] = {}
    for start in range(0, len(order), _BLOCK):
        stop = min(start + _BLOCK, len(order))
        end = int(np.searchsorted(lengths, lengths[stop - 1] * (1 + _LENGTH), side="right"))
        likeness = sorted_vectors[start:stop] @ sorted_vectors[start:end].T
        for row, column in np.argwhere(likeness >= LIKENESS):
            if column <= row or lengths[start + column] > lengths[start + row] * (1 + _LENGTH):
                continue
            pair = int(order[start + row]), int(order[start + column])
            first, later = min(pair), max(pair)
            if later not in found or first < found[later][0]:
                found[later] = (first, float(likeness[row, column]))
    return found
