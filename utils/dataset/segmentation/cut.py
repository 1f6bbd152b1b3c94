"""Cut a long recording into clips at its pauses: cues are merged and split, and no cut lies inside a word.

A unit is a `Cue`: a subtitle's, or a recognized word. The recording may be cut between two units if a
pause lies near their boundary; otherwise they stay together. Dynamic programming chooses the cheapest way to form clips
of the requested lengths, preferring whole sentences and medium lengths.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from utils.audio.voice_activity import Pause
from utils.dataset.formats.cues import Cue
from utils.dataset.formats.faults import Fault
from utils.text.split import PAUSES, SENTENCE_ENDS, SPACED_ENDS

_OVERLAP_S = 0.3
"""Cues may overlap by so much: many programs show the next one a little early."""
_MOST_GAP_S = 1.5
"""Units further apart are no part of the same clip: what lies between is not in the text."""
_LONG_PAUSE_S = 0.25
"""A cue is split at pauses of this length only: readers make them between clauses."""
_NO_SENTENCE_END = 3.0
"""What a clip costs that ends in mid-sentence, in seconds that it is away from the best length."""
_TOO_SHORT = 1_000.0
_OUT_OF_LIMITS = 1_000_000.0
# Chinese, Japanese, Thai, Lao, Burmese and Khmer letters: nothing stands between their words.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]")
_CLOSING = "\"'”’»)]}」』"


@dataclass(frozen=True, kw_only=True)
class CutLengths:
    """What clips may be like."""

    shortest_s: float = 2.0
    longest_s: float = 11.0
    padding_s: float = 0.25
    """Kept before the first and after the last sound, where the pause is long enough for both its neighbors."""
    reach_s: float = 0.5
    """How far from a unit's edge the pause may lie that it is cut at."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A clip to be, or units that cannot be one."""

    start_s: float
    end_s: float
    text: str
    speaker: str
    units: tuple[Cue, ...]
    """What it is made of; every unit is in exactly one cut."""
    fault: Fault | None = None


def cut_units(units: Sequence[Cue], pauses: Sequence[Pause], *, duration_s: float, limits: CutLengths) -> list[Cut]:
    """Clips for units, in order of time.

    Args:
        units: in any order; those with impossible times are reported.
        pauses: of the recording, in order.
        duration_s: of the recording.
        limits: what clips may be like.

    Returns:
        Cuts that hold every unit exactly once; those of a unit that was split share it.
    """
    checked = check_units(units, duration_s)
    # With one pause at each end of the recording.
    pauses = [Pause(0.0, 0.0), *(pause for pause in pauses if pause.end_s < duration_s), *_last(pauses, duration_s)]
    whole = [part for unit in checked for part in _parts(unit, pauses, limits)]
    found: list[Cut] = []
    for run in _runs(whole):
        first = run[0]
        found += [_cut(run, first.start_s, first.end_s, first.fault)] if first.fault else _clips(run, pauses, limits)
    return found


def check_units(units: Sequence[Cue], duration_s: float) -> list[Cue]:
    """The units by time, each that cannot be right with what is wrong with it."""
    checked = []
    for unit in sorted(units, key=lambda unit: unit.start_s):
        fault = unit.fault or _impossible(unit, duration_s)
        checked.append(
            replace(unit, fault=fault, end_s=min(unit.end_s, duration_s)) if not fault else replace(unit, fault=fault)
        )
    usable = [index for index, unit in enumerate(checked) if not unit.fault]
    latest = None
    for index in usable:
        if latest is not None:
            before, unit = checked[latest], checked[index]
            overlap = min(before.end_s, unit.end_s) - unit.start_s
            if overlap > _OVERLAP_S:
                # What is said in both is in the text of each: neither can be trained on.
                for one, other in ((latest, unit), (index, before)):
                    detail = f"{other.place} overlaps it by {overlap:.2f} s"
                    checked[one] = replace(checked[one], fault=checked[one].fault or Fault("bad times", detail))
        if latest is None or checked[index].end_s > checked[latest].end_s:
            latest = index
    return checked


def joined_text(texts: Sequence[str]) -> str:
    """Texts one after the other, with spaces where their script has them."""
    whole = ""
    for text in filter(None, texts):
        apart = whole and not (_UNSPACED.match(whole[-1]) and _UNSPACED.match(text[0]))
        whole += f" {text}" if apart else text
    return whole


def ends_sentence(text: str) -> bool:
    """Whether a text ends with the mark that ends a sentence in its script."""
    return text.rstrip(_CLOSING + " ").endswith(tuple(SPACED_ENDS + SENTENCE_ENDS))


def _impossible(unit: Cue, duration_s: float) -> Fault | None:
    if not unit.end_s > unit.start_s:  # also of times that are no numbers
        return Fault("bad times", f"it ends at {unit.end_s:.2f} s, before it begins at {unit.start_s:.2f} s")
    if unit.start_s < 0:
        return Fault("bad times", f"it begins at {unit.start_s:.2f} s, before the recording")
    if unit.start_s >= duration_s or unit.end_s > duration_s + 1:
        times = f"{unit.start_s:.2f} to {unit.end_s:.2f} s"
        return Fault("bad times", f"it lies at {times}, but the recording ends at {duration_s:.2f} s")
    if not any(map(str.isalnum, unit.text)):
        return Fault("empty text", "it has no words")
    return None


def _last(pauses: Sequence[Pause], duration_s: float) -> list[Pause]:
    if pauses and pauses[-1].end_s >= duration_s:
        return [Pause(pauses[-1].start_s, duration_s)]
    return [Pause(duration_s, duration_s)]


def _runs(units: Sequence[Cue]) -> Iterator[list[Cue]]:
    """Neighbors that may share a clip: one speaker, nothing unusable between them, no long gap."""
    run: list[Cue] = []
    for unit in units:
        if run and (
            unit.fault or run[-1].fault or unit.speaker != run[-1].speaker or unit.start_s - run[-1].end_s > _MOST_GAP_S
        ):
            yield run
            run = []
        run.append(unit)
    if run:
        yield run


def _clips(run: list[Cue], pauses: Sequence[Pause], limits: CutLengths) -> list[Cut]:
    ends, starts = _edges(run, pauses, limits)
    cuttable = [index for index, edges in enumerate(zip(ends, starts, strict=True)) if edges != (None, None)]
    # The outer edges count in any case, so that every unit comes out, if need be with a fault.
    points = sorted({0, len(run), *cuttable})
    costs, came_from = [0.0] + [math.inf] * (len(points) - 1), [0] * len(points)
    for stop in range(1, len(points)):
        for start in range(stop - 1, -1, -1):
            first, last = points[start], points[stop]
            cost = _cost(run[first:last], starts[first], ends[last], limits)
            # A single piece is allowed whatever it costs; longer ones only within the limits.
            if cost >= _OUT_OF_LIMITS and start < stop - 1:
                break
            if costs[start] + cost < costs[stop]:
                costs[stop], came_from[stop] = costs[start] + cost, start
    found, stop = [], len(points) - 1
    while stop > 0:
        start = came_from[stop]
        first, last = points[start], points[stop]
        found.append(_clip(run[first:last], starts[first], ends[last], limits))
        stop = start
    return found[::-1]


def _cost(units: Sequence[Cue], start_s: float | None, end_s: float | None, limits: CutLengths) -> float:
    if start_s is None or end_s is None:
        return _OUT_OF_LIMITS
    seconds = end_s - start_s
    if seconds > limits.longest_s or seconds <= 0:
        return _OUT_OF_LIMITS
    best = (limits.shortest_s + limits.longest_s) / 2
    cost = abs(seconds - best) * 0.5
    if seconds < limits.shortest_s:
        cost += _TOO_SHORT
    return cost if ends_sentence(units[-1].text) else cost + _NO_SENTENCE_END


def _clip(units: Sequence[Cue], begin_s: float | None, stop_s: float | None, limits: CutLengths) -> Cut:
    start_s = units[0].start_s if begin_s is None else begin_s
    end_s = max(unit.end_s for unit in units) if stop_s is None else stop_s
    fault = None
    if begin_s is None or stop_s is None or end_s <= start_s:
        side = "before it" if begin_s is None else "after it"
        fault = Fault("no pause", f"there is no pause {side} within {limits.reach_s} s: a cut would split a word")
    elif end_s - start_s > limits.longest_s:
        detail = f"{end_s - start_s:.1f} s without a pause between words; the limit is {limits.longest_s} s"
        fault = Fault("too long", detail)
    elif end_s - start_s < limits.shortest_s:
        detail = f"{end_s - start_s:.2f} s and no neighbor to merge with; the minimum is {limits.shortest_s} s"
        fault = Fault("too short", detail)
    return _cut(units, start_s, end_s, fault)


def _cut(units: Sequence[Cue], start_s: float, end_s: float, fault: Fault | None) -> Cut:
    return Cut(
        start_s=max(0.0, round(start_s, 3)),
        end_s=max(0.0, round(end_s, 3)),
        text=joined_text([unit.text for unit in units]),
        speaker=units[0].speaker,
        units=tuple(units),
        fault=fault,
    )


def _edges(
    run: Sequence[Cue], pauses: Sequence[Pause], limits: CutLengths
) -> tuple[list[float | None], list[float | None]]:
    """Where a unit may end and the next one begin, None where it cannot be cut.

    Before the first unit, between each two, after the last: len(run) + 1.
    """
    ends: list[float | None] = [None]
    starts = [_begin(_near(pauses, run[0].start_s, run[0].start_s, limits), limits)]
    latest = starts[0] or 0.0
    for before, after in pairwise(run):
        first, last = sorted((before.end_s, after.start_s))
        if last - first > 2 * limits.reach_s:
            # Wide apart: what lies between them (a cough, music, an untitled word) belongs to neither.
            end, start = _near(pauses, first, first, limits), _near(pauses, last, last, limits)
        else:
            end = start = _near(pauses, first, last, limits)
        end_s, start_s = _end(end, limits), _begin(start, limits)
        if end_s is None or start_s is None or end_s <= latest + 0.1:
            end_s = start_s = None
        else:
            latest = start_s or latest
        ends.append(end_s)
        starts.append(start_s)
    stop = max(unit.end_s for unit in run)
    return [*ends, _end(_near(pauses, stop, stop, limits), limits)], [*starts, None]


def _near(pauses: Sequence[Pause], first_s: float, last_s: float, limits: CutLengths) -> Pause | None:
    """The best pause near a stretch: near it and long."""
    at = bisect_left(pauses, first_s - limits.reach_s, key=lambda pause: pause.end_s)
    best, best_score = None, math.inf
    for pause in pauses[at:]:
        if pause.start_s > last_s + limits.reach_s:
            break
        away = max(0.0, pause.start_s - last_s, first_s - pause.end_s)
        score = away - 0.5 * min(pause.seconds, 0.6)
        if score < best_score:
            best, best_score = pause, score
    return best


def _begin(pause: Pause | None, limits: CutLengths) -> float | None:
    return None if pause is None else max(pause.middle_s if pause.start_s else 0.0, pause.end_s - limits.padding_s)


def _end(pause: Pause | None, limits: CutLengths) -> float | None:
    return None if pause is None else min(pause.middle_s, pause.start_s + limits.padding_s)


def _parts(unit: Cue, pauses: Sequence[Pause], limits: CutLengths) -> list[Cue]:
    """A cue that is too long for a clip, split where its text and the recording both pause; else as it is.

    A pause's position in the text follows from how much of the speech lies before it. That is an estimate, so a mark
    and a pause are taken for one another only when no other pause comes into question.
    """
    if unit.fault or unit.end_s - unit.start_s <= limits.longest_s:
        return [unit]
    marks = _marks(unit.text)
    inner = [p for p in pauses if unit.start_s + 0.5 < p.start_s and p.end_s < unit.end_s - 0.5]
    long = [pause for pause in inner if pause.seconds >= _LONG_PAUSE_S]
    found: list[tuple[int, Pause]] = []
    last = 0
    for mark in marks:
        share = _letters(unit.text[:mark]) / max(1, _letters(unit.text))
        pause = _pause_at(unit, inner, long, share)
        if pause is not None and (not found or pause.start_s > found[-1][1].end_s + 0.5):
            found.append((mark, pause))
    if not found:
        return [unit]
    pieces, start_s = [], unit.start_s
    for mark, pause in found:
        pieces.append(replace(unit, start_s=start_s, end_s=pause.start_s, text=unit.text[last:mark].strip()))
        start_s, last = pause.end_s, mark
    pieces.append(replace(unit, start_s=start_s, text=unit.text[last:].strip()))
    return [replace(piece, place=f"{unit.place}, part {number}") for number, piece in enumerate(pieces, start=1)]


def _pause_at(unit: Cue, inner: Sequence[Pause], long: Sequence[Pause], share: float) -> Pause | None:
    """The one pause that this share of a unit's speech lies before; None when none or several could be meant."""
    speech_s = unit.end_s - unit.start_s - sum(pause.seconds for pause in inner)
    away = []
    for pause in long:
        before = pause.start_s - unit.start_s - sum(p.seconds for p in inner if p.start_s < pause.start_s)
        away.append((abs(before - share * speech_s), pause))
    away.sort(key=lambda one: one[0])
    tolerance = 0.06 * speech_s
    if not away or away[0][0] > tolerance or (len(away) > 1 and away[1][0] < 2 * tolerance):
        return None
    return away[0][1]


def _marks(text: str) -> list[int]:
    """Where a text may pause: behind sentence ends and commas of every script."""
    ends = re.finditer(
        rf"[{SPACED_ENDS}{PAUSES}][{re.escape(_CLOSING)}]*\s|[{SENTENCE_ENDS}][{re.escape(_CLOSING)}]*\s*", text
    )
    return [found.end() for found in ends if found.end() < len(text)]


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))
