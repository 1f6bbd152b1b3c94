"""Say what a file is by its content: every file of an input is a recording, belongs to one, or is listed as ignored."""

import codecs
import mimetypes
from pathlib import Path

from utils.audio.container import has_sound

_MAGIC = {
    b"\xff\xd8\xff": "image",
    b"\x89PNG": "image",
    b"GIF8": "image",
    b"%PDF": "PDF",
    b"PK\x03\x04": "archive or document",
    b"Rar!": "archive",
    b"7z\xbc\xaf": "archive",
    b"\x1f\x8b": "archive",
    b"\x7fELF": "program",
    b"MZ": "program",
}
SOUND = "recording"


def kind_of(path: Path) -> str:
    """`SOUND`, or another kind of file in words."""
    try:
        with path.open("rb") as file:
            head = file.read(4_096)
    except OSError as error:
        return f"cannot be opened: {error.strerror}"
    if not head:
        return "empty"
    known = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "")
    if known:
        return known
    if _is_text(head):
        return "text"
    if has_sound(path):
        return SOUND
    guessed = (mimetypes.guess_type(path.name)[0] or "").split("/")[0]
    return "film without sound" if guessed == "video" else guessed if guessed in ("image", "font") else "unknown"


def _is_text(head: bytes) -> bool:
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return all(char.isprintable() or char in "\t\r\n\f\ufeff" for char in text)
