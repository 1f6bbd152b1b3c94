"""The translations of the page's words: gettext, in the language of who asks.

Every visible text of this package passes through `_`, or `ngettext` where it counts something. `messages.pot` lists
them (`make messages`); a translation is LANGUAGE.po beside it. A text without one is English.
"""

import ast
import functools
import gettext
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


class Translations(gettext.NullTranslations):
    """Those of a .po file, with the plural rule of its header; empty ones count as none."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._texts = {ids: texts for ids, texts in read_po(path).items() if all(texts)}
        self._form = gettext.c2py(self._texts[("",)][0].partition("plural=")[2].split(";")[0])

    def gettext(self, message: str) -> str:
        return self._texts.get((message,), (message,))[0]

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        texts = self._texts.get((msgid1, msgid2))
        return texts[self._form(n)] if texts else super().ngettext(msgid1, msgid2, n)


@functools.cache
def _translations(code: str) -> gettext.NullTranslations:
    return gettext.NullTranslations() if code == SOURCE else Translations(PACKAGE / f"{code}.po")


def _(message: str, /, **values: object) -> str:
    """A text in the language that is spoken; its placeholders are filled where values are given."""
    said = _translations(language()).gettext(message)
    return said.format(**values) if values else said


def ngettext(singular: str, plural: str, number: int, /, **values: object) -> str:
    """A text that counts something, in the language that is spoken; {count} stands for the number."""
    return _translations(language()).ngettext(singular, plural, number).format(count=number, **values)


engine_text = _
"""For texts that the engine brings: `make messages` knows where they stand, as they are not literals."""
