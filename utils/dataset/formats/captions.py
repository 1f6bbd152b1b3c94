"""Make of captions what is spoken: each word once, and no sound descriptions, speaker labels or note signs."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from utils.dataset.formats.cues import Cue
from utils.dataset.formats.table import clean

_TOUCHING_S = 0.1
"""Captions that roll follow one another at once, with cues between that are too short to read."""
_PAUSE_S = 3.0
"""A line that is still shown after a pause, above a new one."""
_OVERLAP_S = 0.3
_DESCRIPTION = re.compile(
    r"\[[^\[\]]*\]|\([^()]*\)|\{[^{}]*\}|（[^（）]*）|【[^【】]*】|［[^［］]*］|\*[^*\n]+\*|[♪♫♩♬]+|#(?=\s)|(?<=\s)#$"
)
_CHANGE = re.compile(r"^\s*(?:[-‐‑–—]|>>+)\s*")
_LABEL = re.compile(r"^\s*([^\W\d_][\w .'’&-]{0,30}):(?=\s|$)")


def spoken_once(cues: Sequence[Cue]) -> list[Cue]:
    """Cues of captions that roll up or grow, each with only what is new in it; those without anything new are gone.

    A cue repeats the last lines of the one before it, or its whole text, and adds to them. Others are left as they
    are: people do say things twice. Where most cues last into the next, they end where that begins.
    """
    order = sorted(
        (index for index, cue in enumerate(cues) if cue.text and not cue.problem), key=lambda i: cues[i].start_s
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
    labels = Counter(
        label[1] for cue in cues for line in cue.lines if (label := _LABEL.match(_CHANGE.sub("", _bare(line))))
    )
    removed: dict[str, None] = {}
    found = []
    for cue in cues:
        text = "\n".join(cue.lines)
        removed |= dict.fromkeys(map(clean, _DESCRIPTION.findall(text)))
        kept = []
        for line in _bare(text).split("\n"):
            bare = _CHANGE.sub("", line)
            label = _LABEL.match(bare)
            if label and (label[1].isupper() or labels[label[1]] > 1):
                removed[f"{label[1]}:"] = None
                bare = bare[label.end() :]
            kept.append(clean(bare))
        lines = tuple(filter(None, kept))
        found.append(cue if lines == cue.lines else replace(cue, lines=lines, text=" ".join(lines)))
    return found, list(removed)


def _bare(text: str) -> str:
    return _DESCRIPTION.sub("", text)
