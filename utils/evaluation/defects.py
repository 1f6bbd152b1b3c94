"""Detect defects of generated speech: silence, talking on, stopping early, loops.

Shapes: T frames (80 a second), F features.
"""

import numpy as np
from torch import Tensor

from utils.evaluation.features import FRAMES_PER_SECOND, HOP, RATE, active, log_mels, mfccs, trimmed
from utils.evaluation.warping import best_ends

MAX_SILENCE_S = 1.2
"""Longest pause within or after speech that is no fault."""
MAX_EXTRA_S, MAX_LOST_S = 0.7, 0.5
"""Speech beyond the sentence, and of the sentence left unsaid, that is no fault: about two syllables."""
LONGEST, SHORTEST = 1.7, 0.55
"""Bounds of the length of speech over that of the reference, when both speak at their own pace."""
LOOP_LAGS_S = (0.15, 1.5)
"""Shortest and longest piece that a loop may repeat."""
LOOP_S = 0.9
"""A loop repeats the same for at least this long after the first time."""
LOOP_LIKENESS = 0.9
"""Least mean cosine of a repetition's frames."""


def find_defects(wav: Tensor, reference: Tensor, *, finished: bool = True, pace: float = 1.0) -> list[str]:
    """Defects of speech against a recording of the same sentence.

    silent: there is no sound, or a pause of more than 1.2 s. run_on: it speaks on after the sentence, or never ended by
    itself. early_stop: the end of the sentence is missing. loop: a piece is said over and over, or a sound is held.

    Args:
        wav: speech, [1, N] at 16 000 Hz.
        reference: the sentence said right, by whatever voice, [1, M] at 16 000 Hz.
        finished: whether the model ended by itself.
        pace: usual length of this voice's sentences over the reference's.
    """
    said, wanted = trimmed(wav), trimmed(reference)
    if said.shape[1] < 0.1 * RATE:
        return ["silent", *([] if finished else ["run_on"]), "early_stop"]
    length = said.shape[1] / wanted.shape[1] / pace
    said_features, wanted_features = mfccs(said), mfccs(wanted)
    end_said, end_wanted = best_ends(said_features, wanted_features)
    extra_s = (len(said_features) - end_said) / FRAMES_PER_SECOND
    lost_s = (len(wanted_features) - end_wanted) / FRAMES_PER_SECOND
    found = {
        "silent": longest_pause(wav) > MAX_SILENCE_S,
        "run_on": not finished or length > LONGEST or extra_s > MAX_EXTRA_S,
        "early_stop": length < SHORTEST or lost_s > MAX_LOST_S,
        "loop": loop_seconds(wav) >= LOOP_S,
    }
    return [name for name, is_found in found.items() if is_found]


def end_of_sound(wav: Tensor) -> float:
    """The second in which the last sound ends; 0 for silence."""
    return float((np.flatnonzero(active(wav))[-1:] + 1).sum()) * HOP / RATE


def longest_pause(wav: Tensor) -> float:
    """Longest stretch without sound after speech has begun, in seconds; all of a silent recording."""
    speech = active(wav)
    indices = np.flatnonzero(speech)
    if not len(indices):
        return wav.shape[1] / RATE
    gaps = np.diff(np.append(indices, len(speech)))
    return float(gaps.max() - 1) * HOP / RATE


def loop_seconds(wav: Tensor) -> float:
    """For how long speech only repeats what was just said, in seconds: the longest such stretch.

    A frame repeats when the frame one lag before it has the same spectrum. Silence repeats nothing.
    """
    speech = active(wav)
    mels = log_mels(wav).numpy()[: len(speech)]
    speech = speech[: len(mels)]
    shapes = mels - mels.mean(1, keepdims=True)
    # What all frames have in common says nothing.
    shapes = shapes - (shapes[speech].mean(0) if speech.any() else 0)
    shapes /= np.maximum(np.linalg.norm(shapes, axis=1, keepdims=True), 1e-6)
    longest = 0.0
    for lag in range(*(round(s * FRAMES_PER_SECOND) for s in LOOP_LAGS_S)):
        if lag >= len(shapes):
            break
        likeness = (shapes[lag:] * shapes[:-lag]).sum(1)
        # A loop is measured over its whole piece: single frames may differ, and may agree by chance.
        kernel = np.ones(lag) / lag
        both = np.convolve(speech[lag:] & speech[:-lag], kernel, mode="valid") if len(likeness) >= lag else np.zeros(0)
        mean = np.convolve(likeness, kernel, mode="valid") if len(likeness) >= lag else np.zeros(0)
        run = _longest_run((mean > LOOP_LIKENESS) & (both > 0.5))
        if run:
            longest = max(longest, (run - 1 + lag) / FRAMES_PER_SECOND)
    return longest


def _longest_run(flags: np.ndarray) -> int:
    """Length of the longest stretch of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return int((edges[1::2] - edges[::2]).max()) if len(edges) else 0
