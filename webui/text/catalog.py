"""The translations of the page's words: gettext, chosen once from the language of the server's environment.

Every visible text of this package passes through `_`, or `ngettext` where it counts something. `messages.pot` lists
them (`make messages`); a translation is LANGUAGE.po beside it, read where its language is asked for. A text without
one is English.
"""

import ast
import gettext
import io
import os
import struct
from collections.abc import Mapping
from pathlib import Path

PACKAGE = Path(__file__).parent
VARIABLES = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
"""Where the environment names languages, in gettext's order."""
SOURCE_LANGUAGES = ("en", "C", "POSIX")


def wanted(environment: Mapping[str, str], package: Path = PACKAGE) -> Path | None:
    """The translation that an environment asks for: the first of its languages that is here; None for English."""
    asked = next(filter(None, map(environment.get, VARIABLES)), "")
    for name in asked.split(":"):
        language = name.split(".")[0].split("_")[0]
        if language in SOURCE_LANGUAGES:
            return None
        if language.isalpha() and (package / f"{language}.po").is_file():
            return package / f"{language}.po"
    return None


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


_path = wanted(os.environ)
_translations = load(_path) if _path else gettext.NullTranslations()
_, ngettext = _translations.gettext, _translations.ngettext
engine_text = _translations.gettext
"""For texts that the engine brings: `make messages` knows where they stand, as they are no literals here."""
