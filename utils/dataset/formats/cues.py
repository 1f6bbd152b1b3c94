"""Read subtitles and labels: SRT, WebVTT with its voices, Whisper's JSON and TSV, Audacity labels, ASS and SSA.

Returns every cue in the file's order, including unusable ones, with the reason. Of captions only what is spoken can be
kept: each word once, and no sound descriptions, speaker labels or note signs.
"""

import html
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pysubs2

from utils.dataset.formats.faults import Fault
from utils.dataset.formats.listing import Listing, composed
from utils.dataset.formats.table import DEFAULT_SPEAKER, clean
from utils.dataset.formats.textfile import read_text
from utils.errors import UserError

_TIME = r"(?:(\d+):)?(\d{1,2}):(\d{1,2})(?:[.,](\d{1,3}))?"
_TIMES = re.compile(rf"^\s*(-?){_TIME}\s*-->\s*(-?){_TIME}(?:\s+.*)?$")
_LABEL = re.compile(r"^\s*(-?\d+(?:[.,]\d+)?)\t(-?\d+(?:[.,]\d+)?)(?:\t(.*))?$")
_VOICE = re.compile(r"<v(?:\.[^\s>]+)*\s+([^>]+)>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>|<\d[\d:.]*>|\{\\[^{}]*\}")
_BLANK_LINES = re.compile(r"\n\n+")
"""WebVTT's rule: a line with a blank in it is part of its cue."""
_WHISPER_COLUMNS = "start\tend\ttext\n"
_NOT_CUES = re.compile(r"(?:NOTE|STYLE|REGION|WEBVTT)(?:\s|$)")
_useless = partial(Fault, "bad times")


@dataclass(frozen=True, kw_only=True)
class Cue:
    """A stretch of a recording and what is said in it: a subtitle's cue, or recognized words."""

    place: str = ""
    """Where it stands, such as "cue 3"."""
    start_s: float = 0.0
    end_s: float = 0.0
    text: str = ""
    lines: tuple[str, ...] = ()
    """The same, as it is shown."""
    speaker: str = DEFAULT_SPEAKER
    fault: Fault | None = None
    """Why it cannot be used, though its sound keeps its neighbors apart; times that cannot be read are 0."""
    deviation: int = 0
    """Letters recognized otherwise."""


def parse_cues(content: str, kind: str) -> list[Cue]:
    """Cues of a subtitle file.

    Args:
        content: the whole file.
        kind: ending of its name: .srt, .vtt, .ass, .ssa, .json, .tsv, or .txt for Audacity labels.

    Raises:
        UserError: it is no such file at all.
    """
    return list((PARSERS | BY_CONTENT).get(kind, _labels)(content))


def is_labels(content: str) -> bool:
    """Whether a text is an Audacity label track: every line holds two times and, after a tab, a label."""
    lines = [line for line in content.split("\n") if line.strip() and not line.startswith("\\")]
    return bool(lines) and all(map(_LABEL.match, lines))


def _blocks(content: str) -> Iterator[Cue]:
    """SRT and WebVTT: blocks of a number or name, a line of times, and text; an empty line ends a block."""
    if "\0" in content:
        raise UserError(what="the subtitles hold NUL characters", fix="save them as UTF-8 text")
    number = 0
    for block in _BLANK_LINES.split(content.strip("\n")):
        lines = block.strip("\n").split("\n")
        at = next((index for index, line in enumerate(lines[:2]) if "-->" in line), None)
        if at is None:
            if not _NOT_CUES.match(lines[0].lstrip("\ufeff")) and block.strip():
                number += 1
                yield Cue(place=f"cue {number}", text=_plain(block), fault=_useless("it has no timing line"))
            continue
        # Some programs omit the empty line between cues.
        for part in _apart(lines):
            number += 1
            yield _cue(part, f"cue {number}")


def _apart(lines: list[str]) -> Iterator[list[str]]:
    """The lines of a block from each line of times on, without the number of the cue that follows."""
    starts = [index for index, line in enumerate(lines) if _TIMES.match(line)] or [
        next(index for index, line in enumerate(lines) if "-->" in line)
    ]
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        part = lines[start:stop]
        if stop < len(lines) and len(part) > 1 and part[-1].strip().isdigit():
            part = part[:-1]
        yield part


def _cue(lines: list[str], place: str) -> Cue:
    text = "\n".join(lines[1:])
    times = _TIMES.match(lines[0])
    if times is None:
        fault = _useless(f"its times cannot be read: {lines[0].strip()[:80]!r}")
        return Cue(place=place, text=_plain(text), fault=fault)
    before, *voices = _VOICE.split(text)
    names = {clean(html.unescape(name)) for name in voices[::2]}
    is_mixed = len(names) > 1 or bool(voices and _plain(before))
    spoken = " ".join(voices[1::2]) if voices and not is_mixed else text
    return Cue(
        place=place,
        start_s=_seconds(*times.groups()[:5]),
        end_s=_seconds(*times.groups()[5:]),
        text=_plain(spoken),
        lines=() if is_mixed else _lines(spoken),
        speaker=DEFAULT_SPEAKER if is_mixed else next(iter(names), "") or DEFAULT_SPEAKER,
        fault=_useless(f"several voices share its times: {', '.join(sorted(names))}") if is_mixed else None,
    )


def _labels(content: str) -> Iterator[Cue]:
    """Audacity: start, end and label in seconds; lines that begin with a backslash hold frequencies."""
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip() or line.startswith("\\"):
            continue
        found = _LABEL.match(line)
        if found is None:
            fault = _useless("it does not have two times and a label")
            yield Cue(place=f"line {number}", text=clean(line), fault=fault)
            continue
        start, end = (float(time.replace(",", ".")) for time in found.groups()[:2])
        yield Cue(place=f"line {number}", start_s=start, end_s=end, text=clean(found[3] or ""))


def _styled(kind: str, content: str) -> Iterator[Cue]:
    """ASS and SSA, whose dialogue lines name their speaker."""
    try:
        events = pysubs2.SSAFile.from_string(content, format_=kind[1:]).events
    except (pysubs2.exceptions.Pysubs2Error, ValueError, KeyError, IndexError) as error:
        raise UserError(what=f"the subtitles cannot be read: {error}", fix="save them as SRT") from error
    for number, event in enumerate(
        (event for event in events if not event.is_comment and not event.is_drawing), start=1
    ):
        yield Cue(
            place=f"cue {number}",
            start_s=event.start / 1_000,
            end_s=event.end / 1_000,
            text=_plain(event.plaintext),
            lines=_lines(event.plaintext),
            speaker=clean(event.name) or DEFAULT_SPEAKER,
        )


def is_transcript(path: Path) -> bool:
    """Whether a file, by its ending and content, is what Whisper recognized in a recording."""
    with suppress(UserError):
        return path.suffix.lower() in BY_CONTENT and bool(_found_segments(read_text(path)))
    return False


def _segments(content: str) -> Iterator[Cue]:
    """Segments of Whisper, faster-whisper or WhisperX, which adds speakers."""
    for number, segment in enumerate(_found_segments(content), start=1):
        text, speaker = _plain(str(segment["text"] or "")), clean(str(segment.get("speaker") or DEFAULT_SPEAKER))
        cue = Cue(place=f"segment {number}", text=text, lines=(text,), speaker=speaker)
        try:
            yield replace(cue, start_s=float(segment["start"]), end_s=float(segment["end"]))
        except (KeyError, TypeError, ValueError) as error:
            yield replace(cue, fault=_useless(f"its times cannot be read: {error}"))


def _found_segments(content: str) -> list[dict[str, Any]]:
    """Those of Whisper's table, which has milliseconds, or JSON; none of anything else."""
    if content.startswith(_WHISPER_COLUMNS):
        rows = re.findall(r"^(?=.)([^\t\n]*)\t?([^\t\n]*)\t?(.*)$", content, re.MULTILINE)[1:]
        return [{"start": f"{start}e-3", "end": f"{end}e-3", "text": text} for start, end, text in rows]
    with suppress(ValueError, RecursionError):
        found = json.loads(content)
        found = found.get("segments") if isinstance(found, dict) else found
        if isinstance(found, list) and all(isinstance(one, dict) and {"text", "start"} <= one.keys() for one in found):
            return found
    return []


def _seconds(sign: str | None, hours: str | None, minutes: str, seconds: str, fraction: str | None) -> float:
    total = int(hours or 0) * 3_600 + int(minutes) * 60 + int(seconds) + int((fraction or "0").ljust(3, "0")) / 1_000
    return -total if sign else total


def _plain(text: str) -> str:
    """Words without tags; a tag that ends a line is no word of its own."""
    return clean(html.unescape(_TAG.sub("", text)))


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line for line in map(_plain, text.split("\n")) if line)


PARSERS: dict[str, Callable[[str], Iterator[Cue]]] = {
    ".srt": _blocks,
    ".vtt": _blocks,
    ".ass": partial(_styled, ".ass"),
    ".ssa": partial(_styled, ".ssa"),
}
"""The likeliest first: the first that lies beside a recording is used."""
SUBTITLE_SUFFIXES = tuple(PARSERS)
BY_CONTENT: dict[str, Callable[[str], Iterator[Cue]]] = dict.fromkeys((".json", ".tsv"), _segments)
"""Those whose endings other files have, too: see `is_transcript`."""


def cue_files(audio: Path, files: Listing) -> list[Path]:
    """Subtitle files that may belong to a recording: talk.srt, and talk.en.srt, for talk.mp3; the likeliest first."""
    endings = (*SUBTITLE_SUFFIXES, *BY_CONTENT)
    names = files.by_stem(str(audio.parent), endings).get(composed(audio.stem), [])
    found = [path for path in map(audio.with_name, names) if path.suffix.lower() in PARSERS or is_transcript(path)]

    def rank(path: Path) -> tuple[bool, int, int]:
        kind = path.suffix.lower()
        # Subtitles in a language, such as talk.en.srt, go before what Whisper recognized, too.
        return kind in BY_CONTENT, len(path.stem), endings.index(kind)

    return sorted(found, key=rank)


_TOUCHING_S = 0.1
"""Captions that roll follow one another at once, with cues between that are too short to read."""
_PAUSE_S = 3.0
"""A line that is still shown after a pause, above a new one."""
_OVERLAP_S = 0.3
_DESCRIPTION = re.compile(
    r"\[[^\[\]]*\]|\([^()]*\)|\{[^{}]*\}|（[^（）]*）|【[^【】]*】|［[^［］]*］|\*[^*\n]+\*|[♪♫♩♬]+|#(?=\s)|(?<=\s)#$"
)
_CHANGE = re.compile(r"^\s*(?:[-‐‑–—]|>>+)\s*")
_SPOKEN_BY = re.compile(r"^\s*([^\W\d_][\w .'’&-]{0,30}):(?=\s|$)")


def spoken_once(cues: Sequence[Cue]) -> list[Cue]:
    """Cues of captions that roll up or grow, each with only what is new in it; those without anything new are gone.

    A cue repeats the last lines of the one before it, or its whole text, and adds to them. Others are left as they
    are: people do say things twice. Where most cues last into the next, they end where that begins.
    """
    order = sorted(
        (index for index, cue in enumerate(cues) if cue.text and not cue.fault), key=lambda i: cues[i].start_s
    )
    pairs = [(a, b, _repeated(cues[a], cues[b])) for a, b in pairwise(order)]
    signs = sum(_is_sign(cues[a], cues[b], count) for a, b, count in pairs)
    late = [b for a, b, _ in pairs if cues[a].end_s - cues[b].start_s > _OVERLAP_S]
    is_rolling = signs > 0 and 5 * signs >= len(pairs)
    found = dict(enumerate(cues))
    for before, index, count in pairs:
        cue, last = cues[index], cues[before]
        if is_rolling or 2 * len(late) >= max(2, len(pairs)):
            found[before] = replace(found[before], end_s=max(last.start_s, min(last.end_s, cue.start_s)))
        if count and (is_rolling or (count == len(cue.lines) and cue.end_s - cue.start_s < _TOUCHING_S)):
            text = clean(" ".join(cue.lines)[len(" ".join(cue.lines[:count])) :])
            found[index] = replace(cue, text=text)
        elif is_rolling and _grows(last, cue):
            found[index] = replace(cue, text=clean(cue.text[len(last.text) :]))
        elif (last.start_s, last.end_s, last.text) == (cue.start_s, cue.end_s, cue.text):
            found[index] = replace(cue, text="")
    return [found[index] for index, cue in enumerate(cues) if found[index].text or not cue.text]


def _repeated(before: Cue, cue: Cue) -> int:
    """How many of a cue's first lines are the last of the one before, which it follows at once."""
    most = min(len(before.lines), len(cue.lines))
    count = next((count for count in range(most, 0, -1) if before.lines[-count:] == cue.lines[:count]), 0)
    allowed = _PAUSE_S if count < len(cue.lines) else _TOUCHING_S
    return count if cue.start_s - before.end_s <= allowed else 0


def _is_sign(before: Cue, cue: Cue, count: int) -> bool:
    """Whether a pair of cues shows that the captions roll."""
    if count:
        return count < len(cue.lines) or cue.end_s - cue.start_s < _TOUCHING_S
    return _grows(before, cue) and len(before.text.split()) > 2


def _grows(before: Cue, cue: Cue) -> bool:
    return cue.start_s - before.end_s <= _TOUCHING_S and cue.text.startswith(f"{before.text} ")


def without_descriptions(cues: Sequence[Cue]) -> tuple[list[Cue], list[str]]:
    """Cues without what is not spoken, as subtitle editors remove it, and what was removed, each thing once.

    That is what stands in brackets or between stars, note signs, dashes and `>>` before a speaker, and his name: in
    capitals, or one that begins several cues.
    """
    spoken = (_CHANGE.sub("", _DESCRIPTION.sub("", line)) for cue in cues for line in cue.lines)
    labels = Counter(label[1] for line in spoken if (label := _SPOKEN_BY.match(line)))
    removed: dict[str, None] = {}
    found = []
    for cue in cues:
        text = "\n".join(cue.lines)
        removed |= dict.fromkeys(map(clean, _DESCRIPTION.findall(text)))
        kept = []
        for line in _DESCRIPTION.sub("", text).split("\n"):
            bare = _CHANGE.sub("", line)
            label = _SPOKEN_BY.match(bare)
            if label and (label[1].isupper() or labels[label[1]] > 1):
                removed[f"{label[1]}:"] = None
                bare = bare[label.end() :]
            kept.append(clean(bare))
        lines = tuple(filter(None, kept))
        found.append(cue if lines == cue.lines else replace(cue, lines=lines, text=" ".join(lines)))
    return found, list(removed)
