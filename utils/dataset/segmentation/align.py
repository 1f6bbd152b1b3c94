"""Align the words of a transcript with a recording through the recognized words.

Words are compared by their letters, ignoring case; scripts without spaces letter by letter. The transcript's text is
kept. Differences from the recognized words are counted, and a clip with too many is reported.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from rapidfuzz.distance import Indel

from utils.audio.recognizer import Word
from utils.dataset.formats.cues import Cue
from utils.dataset.formats.faults import Fault
from utils.dataset.segmentation.cut import Cut, joined_text
from utils.text.error_rate import letters

MOST_DEVIATION = 0.34
"""Share of a clip's letters that may differ: recognizers misspell names, speakers skip some."""
_MISSING = 4
"""This many words in a row that only one side has are a passage of its own, not a mistake of the recognizer."""
_SHOWN = 12
_TOKEN = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W_]", re.UNICODE
)
_LONE = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


def word_units(words: Sequence[Word]) -> list[Cue]:
    """Recognized words as units; what the recognizer wrote without a space before belongs to the word before."""
    units: list[Cue] = []
    for word in words:
        text = word.text.strip()
        if units and word.text[:1] != " " and not _LONE.match(text[:1]) and word.start_s - units[-1].end_s < 0.5:
            units[-1] = replace(units[-1], text=units[-1].text + text, end_s=word.end_s)
        elif text:
            units.append(Cue(start_s=word.start_s, end_s=word.end_s, text=text, place=f"word {len(units) + 1}"))
    # A dash or a quote on its own says nothing, but stands in the text.
    merged: list[Cue] = []
    for unit in units:
        if merged and not any(map(str.isalnum, unit.text)):
            merged[-1] = replace(merged[-1], text=f"{merged[-1].text} {unit.text}")
        else:
            merged.append(unit)
    return [unit for unit in merged if any(map(str.isalnum, unit.text))]


def align(transcript: str, words: Sequence[Word]) -> list[Cue]:
    """The words of a transcript with times, and passages that only one side has as faults.

    Args:
        transcript: plain text.
        words: the recognized words, by time.
    """
    said = _tokens(transcript)
    recognized = [(piece, word) for word in words for piece, _ in _tokens(word.text)]
    units: list[Cue] = []
    for s0, s1, h0, h1, same in _blocks([key for key, _ in said], [key for key, _ in recognized]):
        before = units[-1].end_s if units else (recognized[h0 - 1][1].end_s if h0 else 0.0)
        if same:
            for index in range(s1 - s0):
                word = recognized[h0 + index][1]
                units.append(_unit(said, s0 + index, word.start_s, word.end_s))
            continue
        next_s = recognized[h1][1].start_s if h1 < len(recognized) else before
        times = (recognized[h0][1].start_s, recognized[h1 - 1][1].end_s) if h1 > h0 else (before, next_s)
        if s1 - s0 >= _MISSING and h1 == h0:
            text = joined_text([piece for _, piece in said[s0:s1]])
            units.append(_fault(text, before, before, f"not found in the recording: {_short(text)}"))
        elif h1 - h0 >= _MISSING and s1 == s0:
            text = joined_text([word.text.strip() for _, word in recognized[h0:h1]])
            units.append(_fault("", *times, f"spoken, but not in the transcript: {_short(text)}"))
        else:
            extra = sum(len(key) for key, _ in recognized[h0:h1])
            units += _spread(said, s0, s1, times)
            deviation = max(extra, sum(len(key) for key, _ in said[s0:s1]))
            if units:
                units[-1] = replace(units[-1], deviation=units[-1].deviation + deviation)
    return _merged(units)


def with_deviations(cuts: Sequence[Cut], words: Sequence[Word]) -> list[Cut]:
    """The clips, each of too many deviations with the fault that quotes its recognized text."""
    found = []
    for cut in cuts:
        letters = sum(sum(map(str.isalnum, unit.text)) for unit in cut.units)
        share = sum(unit.deviation for unit in cut.units) / max(1, letters)
        if cut.fault is None and share > MOST_DEVIATION:
            recognized = "".join(word.text for word in words if cut.start_s <= word.start_s < cut.end_s).strip()
            fault = Fault(
                "text differs", f"{share:.0%} of the characters differ; Whisper recognized: {_short(recognized)}"
            )
            cut = replace(cut, fault=fault)
        found.append(cut)
    return found


def _tokens(text: str) -> list[tuple[str, str]]:
    """Words as (letters to compare, the word with what follows it up to the next one)."""
    starts = []
    for match in re.finditer(r"\S+", text):
        signs = list(_TOKEN.finditer(match[0]))
        lone = [sign.start() for sign in signs if _LONE.match(sign[0])]
        if not signs:
            continue
        starts += [match.start() + at for at in sorted({*lone, *([0] if signs[0].start() not in lone else [])})]
    if not starts:
        return []
    pieces = [text[a:b].strip() for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
    if starts[0]:
        pieces[0] = text[: starts[1] if len(starts) > 1 else len(text)].strip()
    return [(letters(piece), piece) for piece in pieces]


def _blocks(said: list[str], recognized: list[str]) -> list[tuple[int, int, int, int, bool]]:
    """(first and last of said, first and last of recognized, equal) that cover both, in order.

    Of the ways to turn one into the other by insertions and deletions alone, one of the shortest: words that differ
    stand side by side as one block.
    """
    found: list[tuple[int, int, int, int, bool]] = []
    for step in Indel.opcodes(said, recognized):
        s0, h0, is_equal = step.src_start, step.dest_start, step.tag == "equal"
        if found and not is_equal and not found[-1][-1]:
            s0, _, h0, _, _ = found.pop()
        found.append((s0, step.src_end, h0, step.dest_end, is_equal))
    return found


def _unit(said: Sequence[tuple[str, str]], index: int, start_s: float, end_s: float) -> Cue:
    return Cue(start_s=start_s, end_s=max(end_s, start_s + 0.02), text=said[index][1], place=f"word {index + 1}")


def _fault(text: str, start_s: float, end_s: float, detail: str) -> Cue:
    return Cue(start_s=start_s, end_s=end_s, text=text, place="a passage", fault=Fault("text differs", detail))


def _spread(said: Sequence[tuple[str, str]], s0: int, s1: int, times: tuple[float, float]) -> list[Cue]:
    """Words over a stretch of time, by their letters."""
    letters = [max(1, len(key)) for key, _ in said[s0:s1]]
    start_s, end_s = times
    per_letter = max(0.0, end_s - start_s) / max(1, sum(letters))
    units, done = [], 0
    for index, count in enumerate(letters):
        units.append(_unit(said, s0 + index, start_s + done * per_letter, start_s + (done + count) * per_letter))
        done += count
    return units


def _merged(units: list[Cue]) -> list[Cue]:
    """Units of which one was spoken within another (a word of several tokens) as one."""
    found: list[Cue] = []
    for unit in units:
        last = found[-1] if found else None
        if last and not last.fault and not unit.fault and unit.start_s < last.end_s - 0.02:
            text, deviation = joined_text([last.text, unit.text]), last.deviation + unit.deviation
            found[-1] = replace(last, text=text, end_s=max(last.end_s, unit.end_s), deviation=deviation)
        else:
            found.append(unit)
    return found


def _short(text: str) -> str:
    words = text.split()
    shown = " ".join(words[:_SHOWN])[:200]
    return f"“{shown}{' …' if len(words) > _SHOWN or len(shown) < len(text) - 1 else ''}”"
