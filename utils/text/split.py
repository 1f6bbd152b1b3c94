"""Split long text into pieces that a model can speak: at sentence ends of any script, pauses, or word boundaries."""

import re

SPACED_ENDS = ".!?…"
"""Marks that end a sentence when a space follows: 3.14 and e.g.x continue."""
SENTENCE_ENDS = "。！？｡؟۔।॥።፧፨։။។៕།"
"""Marks that always do: Chinese and Japanese, Arabic, Devanagari, Ethiopic, Armenian, Burmese, Khmer, Tibetan."""
PAUSES = ",;:،؛、，；：፣፤፥၊՝—–"
"""Marks inside a sentence at which a speaker may breathe."""
SENTENCE_PAUSE_S, PAUSE_S = 0.25, 0.1
"""Silence after the end of a sentence, and after a mark inside one; a model's own silence comes before it."""

_SENTENCE = re.compile(rf"(?<=[{SPACED_ENDS}])[\"'”’»)\]]*\s+|(?<=[{SENTENCE_ENDS}])\s*")
_PAUSE = re.compile(rf"(?<=[{PAUSES}])\s*")
_SPACE = re.compile(r"\s+")


def split_text(text: str, limit: int) -> list[str]:
    """Pieces of at most `limit` characters, in order; short neighbors are joined while they fit.

    Args:
        text: any text.
        limit: longest piece, in characters.

    Returns:
        Pieces that hold every letter of the text. A single word longer than the limit is kept whole.
    """
    return _joined(_cut(_SPACE.sub(" ", text).strip(), limit, (_SENTENCE, _PAUSE, _SPACE)), limit)


def split_sentences(text: str, limit: int) -> list[str]:
    """As `split_text`, but each sentence is a piece of its own, however short."""
    sentences = [part.strip() for part in _split_keeping(_SENTENCE, _SPACE.sub(" ", text).strip())]
    return [piece for sentence in sentences for piece in _joined(_cut(sentence, limit, (_PAUSE, _SPACE)), limit)]


def split_quick(text: str, limit: int) -> list[str]:
    """As `split_text`, but the first sentence is a piece of its own: what is short is spoken soon."""
    first, *rest = split_sentences(text, limit) or [""]
    return [piece for piece in (first, *_joined(rest, limit)) if piece]


def pause_after(piece: str) -> float:
    """Seconds of silence between a piece and the next one, by how it ends."""
    end = piece.rstrip("\"'”’»)] ")[-1:]
    if end and (end in SPACED_ENDS or end in SENTENCE_ENDS):
        return SENTENCE_PAUSE_S
    return PAUSE_S if end and end in PAUSES else 0.0


def _cut(text: str, limit: int, breaks: tuple[re.Pattern[str], ...]) -> list[str]:
    if len(text) <= limit or not breaks:
        return [text] if text else []
    parts = [part.strip() for part in _split_keeping(breaks[0], text)]
    return [piece for part in parts for piece in _cut(part, limit, breaks[1:])]


def _split_keeping(pattern: re.Pattern[str], text: str) -> list[str]:
    """Split after each match, so that closing quotes stay with their sentence."""
    ends = [match.end() for match in pattern.finditer(text) if match.end() < len(text)]
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True)]


def _joined(pieces: list[str], limit: int) -> list[str]:
    joined: list[str] = []
    for piece in pieces:
        if joined and len(joined[-1]) + 1 + len(piece) <= limit:
            joined[-1] += f" {piece}"
        else:
            joined.append(piece)
    return joined
