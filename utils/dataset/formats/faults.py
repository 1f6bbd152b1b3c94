"""Why a recording, a cue or a clip cannot be used."""

from typing import Literal, NamedTuple

Reason = Literal[
    "missing file",
    "outside the folder",
    "no transcript",
    "no recording",
    "unreadable audio",
    "silent",
    "too short",
    "too long",
    "empty text",
    "text too long",
    "unreadable text",
    "unknown characters",
    "duplicate audio",
    "unreadable input",
    "unreadable row",
    "bad times",
    "no pause",
    "text differs",
    "other language",
    "excluded",
    "replaced",
    "flagged",
]


class Fault(NamedTuple):
    """Why a clip cannot be used."""

    reason: Reason
    detail: str
    """One sentence with the offending value and the limit."""
