"""The translations of the page's words: gettext, in the language of who asks.

Every visible text of this package passes through `_`, or `ngettext` where it counts something. `messages.pot` lists
them (`make messages`); a translation is LANGUAGE.po beside it. A text without one is English.
"""

import ast
import functools
import gettext
import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

PACKAGE = Path(__file__).parent
SOURCE = "en"
"""The language of the code's own texts, and of who asks for none."""
PAGE_LANGUAGES = {SOURCE: "English", "es": "Español"}
"""What the page speaks: its code, and how it calls itself."""
_language: ContextVar[str] = ContextVar("language", default=SOURCE)


def language() -> str:
    """The language that is spoken here and now."""
    return _language.get()


@contextmanager
def speaking(code: str) -> Iterator[None]:
    """Texts are in this language within; other threads and requests are not concerned."""
    before = _language.set(code)
    try:
        yield
    finally:
        _language.reset(before)


def read_po(path: Path) -> dict[tuple[str, ...], tuple[str, ...]]:
    """A .po file: (text,) or (singular, plural), each with its translations, empty where they are missing.

    Its header stands under `("",)`.

    Raises:
        ValueError: a line that is no comment, keyword or string.
    """
    entries: dict[tuple[str, ...], tuple[str, ...]] = {}
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        ids: list[str] = []
        translations: list[str] = []
        current = ids
        for line in filter(None, block.splitlines()):
            keyword, _, quoted = line.partition(" ")
            if keyword.startswith("#"):
                continue
            if line.startswith('"') and current:
                current[-1] += ast.literal_eval(line)
                continue
            if not keyword.startswith(("msgid", "msgstr")):
                raise ValueError(f"{path.name}: {line!r} is no line of a .po file")
            current = ids if keyword.startswith("msgid") else translations
            current.append(ast.literal_eval(quoted))
        if ids:
            entries[tuple(ids)] = tuple(translations)
    return entries


def load(path: Path) -> gettext.NullTranslations:
    """A .po file as gettext's translations, with the plural rule of its header; empty translations count as none."""
    entries = {ids: texts for ids, texts in read_po(path).items() if all(texts)}
    pairs = sorted(("\0".join(ids).encode(), "\0".join(texts).encode()) for ids, texts in entries.items())
    # gettext reads .mo alone: header, two tables of (length, offset), then the strings.
    offset = 28 + 16 * len(pairs)
    tables, strings = b"", b""
    for column in zip(*pairs, strict=True):
        for text in column:
            tables += struct.pack("<II", len(text), offset + len(strings))
            strings += text + b"\0"
    head = struct.pack("<7I", 0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, 0)
    return gettext.GNUTranslations(io.BytesIO(head + tables + strings))


@functools.cache
def _translations(code: str) -> gettext.NullTranslations:
    return gettext.NullTranslations() if code == SOURCE else load(PACKAGE / f"{code}.po")


def _(message: str) -> str:
    """A text in the language that is spoken."""
    return _translations(language()).gettext(message)


def ngettext(singular: str, plural: str, number: int) -> str:
    """A text that counts something, in the language that is spoken."""
    return _translations(language()).ngettext(singular, plural, number)


engine_text = _
"""For texts that the engine brings: `make messages` knows where they stand, as they are not literals."""
