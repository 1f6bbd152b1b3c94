"""Move the edges of a clip within its recording: what is there to hear around it, and which edges are allowed.

Nothing here loads torch: the page draws and checks with it, and the engine checks again. Times are seconds of the
recording.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from utils.dataset.storage.report import BY_HAND, ClipReport
from utils.errors import UserError

AROUND_S = 1.0
"""Shown of the recording before and after a clip."""
NUM_PEAKS = 400
SAME_S = 0.001
LONGEST_S = 60.0
"""Of sound that is drawn; the part behind it is not."""


@dataclass(frozen=True, kw_only=True)
class Outline:
    """A clip's sound as it is drawn, with the recording around it."""

    peaks: tuple[float, ...]
    """Largest amplitude of each stretch, from 0 to 1."""
    begin_s: float
    """Where the first stretch begins."""
    end_s: float
    """Where the last one ends."""
    start_s: float
    """Where the clip was cut out."""
    stop_s: float
    """Where that part ends."""
    kept_start_s: float
    """Where the clip begins once silence was removed."""
    kept_stop_s: float
    recording_s: float | None
    """Length of the recording; None where the clip alone is drawn, because its recording cannot be read here."""


def edges(clip: ClipReport) -> tuple[float, float]:
    """Where a clip was cut out of its recording, and where that part ends."""
    stop = clip.end_s
    if stop is None and not clip.joined:
        stop = recording_seconds(Path(clip.source))
    return clip.start_s, clip.start_s + clip.trimmed_s + clip.seconds if stop is None else stop


def outline(dataset: Path, clip: ClipReport) -> Outline | None:
    """The sound of a clip.

    Args:
        dataset: its folder.
        clip: whose wav lies there.

    Returns:
        With the recording around it where that can be read, else of the clip alone; None where neither can be read.
    """
    (start, stop), kept = edges(clip), clip.start_s + clip.trimmed_s
    length = None if clip.joined else recording_seconds(Path(clip.source))
    if length is not None:
        begin, end = max(0.0, start - AROUND_S), min(length, stop + AROUND_S)
        end = min(end, begin + LONGEST_S)
        peaks = _peaks(Path(clip.source), begin, end)
    if length is None or not peaks:
        length, begin, end = None, kept, kept + clip.seconds
        peaks = _peaks(dataset / clip.clip, 0.0, clip.seconds)
    if not peaks:
        return None
    return Outline(
        peaks=peaks,
        begin_s=begin,
        end_s=end,
        start_s=start,
        stop_s=stop,
        kept_start_s=kept,
        kept_stop_s=min(stop, kept + clip.seconds) if not clip.joined else kept + clip.seconds,
        recording_s=length,
    )


def check_edges(clip: ClipReport, start_s: float, end_s: float, *, length_s: float | None) -> None:
    """Do nothing when a clip can be cut again at these times.

    Args:
        clip: as the dataset has it now.
        start_s, end_s: seconds of its recording.
        length_s: of that; None where it is not known, then the clip ends with it at the latest.

    Raises:
        UserError: it was merged or is no more in use, its recording is missing, or the times are not within that.
    """
    check_is_one_piece(clip)
    source = Path(clip.source)
    if not source.is_file():
        raise UserError(what=f"the recording of {clip.name} is missing", where=clip.source, fix="restore the file")
    longest = math.inf if length_s is None else length_s + 0.01
    if not (0 <= start_s < end_s <= longest and math.isfinite(end_s)):
        within = "" if length_s is None else f", which is {length_s:.2f} s long"
        raise UserError(
            what=f"{start_s:g} to {end_s:g} s is not a part of {source.name}{within}",
            where=clip.name,
            fix="give a start before the end, both within the recording, in seconds",
        )
    if has_edges(clip, start_s, end_s, length_s=length_s):
        raise UserError(what="the clip has these edges already", where=clip.name, fix="move its start or its end")


def has_edges(clip: ClipReport, start_s: float, end_s: float, *, length_s: float | None) -> bool:
    """Whether a clip was cut at these times of its recording, of the length given."""
    stop = length_s if clip.end_s is None else clip.end_s
    return stop is not None and abs(start_s - clip.start_s) < SAME_S and abs(end_s - stop) < SAME_S


def check_is_current(clip: ClipReport) -> None:
    """Do nothing when a clip can be cut.

    Raises:
        UserError: it was excluded, or replaced by others, perhaps in another tab.
    """
    if clip.reason in BY_HAND:
        raise UserError(
            what=f"the clip is no longer in use: {clip.detail}",
            where=clip.name,
            fix="restore it first, or edit the clip that was made from it",
        )


def check_is_one_piece(clip: ClipReport) -> None:
    """Do nothing when a clip can be cut within its recording.

    Raises:
        UserError: as `check_is_current`, or it was merged from several parts.
    """
    check_is_current(clip)
    if clip.joined:
        raise UserError(what="the clip was merged from several", where=clip.name, fix="restore its parts and cut those")


def recording_seconds(path: Path) -> float | None:
    """Length in seconds of a recording that soundfile reads; None for all others, which need PyAV or are not there."""
    # Imported late: the page opens without it.
    from utils.audio.sound_file import sound_seconds

    return sound_seconds(path) if path.is_file() else None


def _peaks(path: Path, begin_s: float, end_s: float) -> tuple[float, ...]:
    """Largest amplitudes of a part of a file in NUM_PEAKS equal stretches; empty where it cannot be read."""
    import soundfile

    from utils.audio.sound_file import SoundFile

    try:
        with SoundFile(path) as sound:
            sound.seek(min(round(begin_s * sound.samplerate), sound.frames))
            samples = sound.read(round((end_s - begin_s) * sound.samplerate), dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, TypeError, OSError):
        return ()
    if not len(samples):
        return ()
    heights = np.abs(np.nan_to_num(samples)).max(axis=1)
    edges = np.linspace(0, len(heights), min(NUM_PEAKS, len(heights)), endpoint=False).astype(int)
    return tuple(round(min(1.0, float(peak)), 3) for peak in np.maximum.reduceat(heights, edges))
