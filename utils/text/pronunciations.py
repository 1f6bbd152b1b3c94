"""A project's pronunciations: words, and what is said instead of them, from a table (pronunciations.csv)."""

import csv
import re
import unicodedata
from pathlib import Path

from utils.errors import UserError
from utils.text.languages import plain_code

PRONUNCIATIONS_FILE = "pronunciations.csv"
"""In a project's folder."""
COLUMNS = ["word", "say", "language"]
"""Of the table; an empty language is any."""
_UNSPACED = ("zh", "ja", "th", "lo", "km", "my")
"""Their words have no spaces between them."""

Pronunciation = tuple[str, str, str]
"""A word, what is said, and the plain code of its language."""


def read_pronunciations(path: Path) -> list[Pronunciation]:
    """The rows of a table; none without a file.

    Raises:
        UserError: it cannot be read, or a row lacks its word or what is said.
    """
    if not path.is_file():
        return []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            if reader.fieldnames not in (None, COLUMNS):
                raise ValueError("its columns are others")
            rows = list(reader)
        if any(None in row for row in rows):
            raise ValueError("a row has more than three fields; put one that contains a comma in quotes")
        found = [[(row[name] or "").strip() for name in COLUMNS] for row in rows]
        if not all(word and say for word, say, _ in found):
            raise ValueError("a row has no word, or nothing to say")
    except (OSError, ValueError, csv.Error) as error:
        fix = f"begin with the line {','.join(COLUMNS)}; then write one word a line"
        raise UserError(what=f"the pronunciations cannot be read: {error}", where=str(path), fix=fix) from error
    return [(word, say, plain_code(language)) for word, say, language in found]


def pronounce(text: str, language: str, table: list[Pronunciation]) -> tuple[str, list[str]]:
    """A text with the words of a table replaced: whole words, in the case they are written in.

    Args:
        text: any.
        language: plain code of the text.
        table: see `read_pronunciations`; rows of the text's own language go before those of any.

    Returns:
        The text, and each word that was replaced with what is said: "GPU: gee pee you".
    """
    text, used = unicodedata.normalize("NFC", text), dict[str, None]()
    rows = sorted(table, key=lambda row: row[2] == language)
    says = {unicodedata.normalize("NFC", word): say for word, say, code in rows if code in ("", language)}

    def said(match: re.Match[str]) -> str:
        used[f"{match[0]}: {says[match[0]]}"] = None
        return says[match[0]]

    # Vowel signs and tones are part of a word, but no \w.
    marks = "".join({char for char in text if unicodedata.category(char)[0] == "M"})
    letter = "(?!)" if language in _UNSPACED else rf"[\w{marks}]"
    words = "|".join(map(re.escape, sorted(says, key=len, reverse=True))) or "(?!)"
    return re.sub(f"(?<!{letter})(?:{words})(?!{letter})", said, text), list(used)
