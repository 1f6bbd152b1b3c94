"""Find the Windows code page of a text by the letters of its language: wrong ones make letters that no text has."""

import re
from contextlib import suppress
from pathlib import Path

from utils.dataset.formats.textfile import MAX_BYTES, bad_line, unicode_of

_MARKS = r"\t\n\r -~\u00a0\u00ad«»°¡¿€£§·ªº‐‑–—‘’‚“”„…‹›"
_LATIN = {
    "da": "æøåéèü",
    "de": "äöüßéèàêç",
    "en": "àáâäçèéêëíïñóôöü",
    "es": "áéíóúüñ",
    "fi": "äöåé",
    "fr": "àâæçéèêëîïôœùûüÿ",
    "it": "àèéìíîòóùú",
    "nl": "áàçéèêëíïóôöúü",
    "no": "æøåéèêòóôü",
    "pt": "áàâãçéêíóôõúü",
    "sv": "åäöéü",
}
# Capitals within words; marks that no letter stands before; UTF-8 read as this.
_STRANGE = r"[a-zß-ÿ][À-Þ]|[^\W\d_](?:[‚„]|[«»°¡¿€£§“”‹›ªº][^\W\d_])|[À-ÿ]{4}|[ÂÃâ][^\0-~À-ÿ]"
_PAGES = {
    "bg ru uk": ("cp1251", "ЁЄІЇА-яёєіїҐґ№", r"[а-яё][А-ЯЁ]|[А-Я]{5}|§[а-я]|[A-Za-z][А-я]|[А-я][A-Za-z]"),
    # DOS and old Macs have small letters where this page has marks: without one of the language nothing is certain.
    **{
        code: ("cp1252", small + small.upper(), rf"{_STRANGE}|\A[^{small}]*\Z")
        for code, small in _LATIN.items()
        if code != "en"
    },
    # Texts in English have curly quotes alone, and hardly capitals with accents, where old Macs have quotes.
    "en": ("cp1252", _LATIN["en"], _STRANGE),
    "ja": ("cp932", "\u3000-ヿ一-鿿\uff01-\uff5e", r"\A[^ぁ-んァ-ヶ]*\Z"),
}
"""By languages: the code page of Windows, their letters, and what no text of theirs has: capitals or opening marks
within words, or nothing but letters with accents."""


def guess_encoding(path: Path, language: str) -> str | None:
    """The code page of a text file, where its letters show it; None of Unicode, and where nothing is certain.

    Args:
        path: of a file that may be missing.
        language: plain code of what its texts are in.
    """
    page, letters, strange = next((found for codes, found in _PAGES.items() if language in codes.split()), ("", "", ""))
    with suppress(OSError):
        if page and path.stat().st_size <= MAX_BYTES and bad_line(path, unicode_of(path)):
            with suppress(UnicodeDecodeError):
                found = path.read_bytes().decode(page)
                return None if re.search(f"[^{_MARKS}{letters}]|{strange}", found) else page
    return None
