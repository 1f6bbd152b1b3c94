"""Guards: judge a spoken sentence, and cut its quiet tail. batch.py speaks it again and keeps the best attempt.

A guard only acts where it is sure. A quiet tail is cut; a sentence that never ended, went round in a loop or lost most
of its text is to be spoken again with another seed. All else is reported, not corrected: stops that were forced on a
suspicion have cut good speech in other programs.

Shapes: M codes (21.5 a second), N samples at 24 000 Hz.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from utils.options import CODE_SAMPLES, DATASET_RATE, OUTPUT_RATE

Fault = Literal["unfinished", "loop", "too short", "too long", "quiet tail", "late stop", "other words"]

CODES_A_SECOND = DATASET_RATE / CODE_SAMPLES
GRAVE: tuple[Fault, ...] = ("unfinished", "loop", "too short", "too long", "other words")
"""Faults for which a sentence is spoken again."""

FRAME = OUTPUT_RATE // 50
"""Samples over which loudness is measured: 20 ms."""
QUIET = 10 ** (-40 / 20)
"""Share of the loudest frame so far below which a frame is quiet: 40 dB."""
LONGEST_TAIL_S, KEPT_TAIL_S = 0.6, 0.15
"""A quiet tail from the first length on is cut to the second; healthy ends have 0.12 to 0.18 s."""

LONGEST_PERIOD = 32
"""Codes after which a loop may come round."""
HELD_CODES, LOOP_CODES = 24, 32
"""Codes of a held sound, and of a longer period's repetitions, from which on they are no pause and no stutter."""

SHORTEST_PACE, LONGEST_PACE = 0.5, 2.5
"""Bounds of a sentence's length over the one that its text is expected to take."""
LEAST_S = 1.0
"""Shorter sentences vary too much to be judged by their length."""
CHARACTERS_A_SECOND = 15.0
"""Pace of reading aloud in alphabetic scripts; half and twice of it are rare."""
ALPHABETIC = 0x0900
"""First code point of scripts in which a character may be a syllable or a word; those before are alphabets."""
NO_STOP = 0.01
"""A sentence in which the stop code never was as probable as this is not spoken again: it would not end either."""
MISSED_STOP = 0.5
"""Probability of the stop code from which on a later end is reported."""
LATE_CODES = 10
OTHER_WORDS = 0.3
"""Share of a sentence's letters that a recognizer takes for others, from which on it is spoken again: a lost end or a
babbled one is more, the recognizer's own mistakes are less."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the guards say of one attempt."""

    faults: tuple[Fault, ...] = ()
    kept: int = 0
    """Codes of it that are speech; less than all where its end goes round in a loop."""
    penalty: float = 0.0
    """To choose among attempts: 0 is flawless."""

    stop_chance: float = 1.0
    """The largest probability that the stop code had."""

    @property
    def is_grave(self) -> bool:
        """Whether another attempt is worth its time."""
        return any(fault in GRAVE for fault in self.faults) and self.stop_chance >= NO_STOP

    def with_words(self, error: float) -> "Judgement":
        """The same, after a recognizer compared the words.

        Args:
            error: share of the text's letters that were recognized otherwise.
        """
        faults: tuple[Fault, ...] = (*self.faults, "other words") if error >= OTHER_WORDS else self.faults
        return replace(self, faults=faults, penalty=self.penalty + error)


def judge(codes: list[int], stop_logprobs: list[float], *, stopped: bool, expected: float | None) -> Judgement:
    """What can be seen without the waveform.

    Args:
        codes: all that were decoded, the stop code included.
        stop_logprobs: log probability of the stop code at each.
        stopped: whether the stop code came.
        expected: codes that a text like this usually takes; None where nothing is known.
    """
    faults: list[Fault] = []
    said = codes[:-1] if stopped else codes
    kept, penalty = len(codes), 0.0
    if not stopped:
        faults.append("unfinished")
        penalty += 4
    start, period = find_loop(said)
    if period:
        faults.append("loop")
        penalty += 2
        # What it says the first time is speech.
        kept = min(kept, start + period)
    if expected and expected >= LEAST_S * CODES_A_SECOND:
        pace = len(said) / expected
        if pace < SHORTEST_PACE:
            faults.append("too short")
            penalty += 3 * (1 - pace)
        elif pace > LONGEST_PACE and stopped:
            faults.append("too long")
            penalty += min(2.0, pace - 1)
    nearly = missed_stop(stop_logprobs)
    if nearly is not None:
        faults.append("late stop")
        penalty += 0.5
    chance = math.exp(max(stop_logprobs, default=0.0))
    return Judgement(faults=tuple(faults), kept=kept, penalty=penalty, stop_chance=chance)


def usual_codes(text: str) -> float | None:
    """Codes that a text takes at the usual pace; None where its letters do not tell: numbers, and other scripts."""
    if any(character.isdigit() or (ord(character) >= ALPHABETIC and character.isalpha()) for character in text):
        return None
    return len(text.strip()) / CHARACTERS_A_SECOND * CODES_A_SECOND


def find_loop(codes: list[int]) -> tuple[int, int]:
    """The first place from which codes go round to the end of the longest loop, and its period; (0, 0) without one.

    A held sound is a loop of period 1. Only exact repetitions count: what is said twice is drawn again each time.
    """
    row = torch.tensor(codes)
    for period in range(1, min(LONGEST_PERIOD, len(codes) // 2) + 1):
        same = (row[period:] == row[:-period]).int()
        least = HELD_CODES if period == 1 else max(LOOP_CODES, 2 * period)
        # Length of the run of equal codes that ends at each place.
        places = torch.arange(1, len(same) + 1)
        runs = places - torch.where(same == 0, places, 0).cummax(0).values
        found = (runs >= least).nonzero()
        if len(found):
            end = int(found[0, 0])
            return end + 1 - int(runs[end]), period
    return 0, 0


def missed_stop(stop_logprobs: list[float]) -> int | None:
    """Where the stop code was more probable than not and was not drawn, long before the end."""
    chances = torch.tensor(stop_logprobs[: max(0, len(stop_logprobs) - LATE_CODES)]).exp()
    found = (chances >= MISSED_STOP).nonzero()
    return int(found[0, 0]) if len(found) else None


class TailCut:
    """Holds back quiet samples until something follows them; a long quiet tail is cut. For whole and streamed speech.

    What is quiet is decided by what came before, so chunks give the same samples as the whole.
    """

    def __init__(self) -> None:
        self._loudest = 0.0
        self._held = torch.zeros(1, 0)
        """From the first sample that is not certain to be kept; a multiple of a frame but for the last chunk's rest."""
        self._looked = 0
        """Samples of it, whole frames, that are known to be quiet."""
        self.cut_s = 0.0

    def add(self, wav: Tensor, *, is_last: bool) -> Tensor:
        """Samples [1, n] that are certain; all that is left at the end, but for the tail's cut."""
        held = torch.cat([self._held, wav], dim=1)
        num_frames = (held.size(1) - self._looked) // FRAME
        fresh = held[:, self._looked : self._looked + num_frames * FRAME].view(num_frames, FRAME)
        sound_end = 0
        for number, level in enumerate(fresh.square().mean(1).sqrt().tolist()):
            self._loudest = max(self._loudest, level)
            if level > QUIET * self._loudest:
                sound_end = self._looked + (number + 1) * FRAME
        looked = self._looked + num_frames * FRAME
        given, rest = held[:, :sound_end], held[:, sound_end:]
        self._held, self._looked = rest, looked - sound_end
        if not is_last:
            return given
        self._held, self._looked = torch.zeros(1, 0), 0
        if rest.size(1) >= LONGEST_TAIL_S * OUTPUT_RATE and self._loudest > 0:
            kept = int(KEPT_TAIL_S * OUTPUT_RATE)
            self.cut_s = (rest.size(1) - kept) / OUTPUT_RATE
            rest = rest[:, :kept]
        return torch.cat([given, rest], dim=1)
