"""A project's pronunciations: words, and what is said instead of them, from a table (pronunciations.csv)."""

import csv
import re
import unicodedata
from pathlib import Path

from utils.errors import UserError, disk_errors
from utils.text.languages import AMHARIC, CLEANED_LANGUAGES, code_of_token, plain_code

PRONUNCIATIONS_FILE = "pronunciations.csv"
"""In a project's folder."""
COLUMNS = ["word", "say", "language"]
"""Of the table; an empty language is any."""
_UNSPACED = ("zh", "ja", "th", "lo", "km", "my")
"""Their words have no spaces between them."""

Pronunciation = tuple[str, str, str]
"""A word, what is said, and the plain code of its language."""


@disk_errors()
def read_table(path: Path) -> str:
    """A table as it is written; empty without a file.

    Raises:
        UserError: it is not UTF-8 text, or may not be read.
    """
    try:
        return path.read_text(encoding="utf-8-sig") if path.is_file() else ""
    except UnicodeError as error:
        what, fix = f"the pronunciations are not UTF-8 text: {error}", "save the file again as UTF-8"
        raise UserError(what=what, where=str(path), fix=fix) from error


def read_pronunciations(path: Path, table: str | None = None) -> list[Pronunciation]:
    """The rows of a table; none without a file. Its first line shows whether commas, semicolons or tabs part them.

    Args:
        path: where it is.
        table: what is to be written there; by default, what is there.

    Raises:
        UserError: it cannot be read, or a row lacks its word or what is said, or has a language that cannot be.
    """
    lines, found = (read_table(path) if table is None else table).splitlines(), []
    mark = next((mark for mark in ",;\t" if lines and re.sub('[" ]', "", lines[0]) == mark.join(COLUMNS)), None)
    for number, line in enumerate(lines, start=1):
        try:
            if mark is None:
                raise ValueError("its columns are others")
            # By itself: a quotation mark without its second one would take the next words with it.
            row = next(csv.reader([line], delimiter=mark, skipinitialspace=True, strict=True))
            word, say, language = (field.strip() for field in [*row, "", "", ""][:3])
            if len(row) > len(COLUMNS):
                raise ValueError("a row has more than three fields; put one that contains a comma in quotes")
            if any(row) and not (word and say):
                raise ValueError("a row has no word, or nothing to say")
            if number > 1 and language and not code_of_token(f"[{plain_code(language)}]"):
                known = ", ".join(sorted([*CLEANED_LANGUAGES, AMHARIC]))
                raise ValueError(f"there is no language {language!r}; use {known}, one you added, or nothing for all")
        except (ValueError, csv.Error) as error:
            fix = f"begin with the line {','.join(COLUMNS)}; then write one word a line, quotation marks in pairs"
            what = f"the pronunciations cannot be read: {error}: {line[:60]!r}"
            raise UserError(what=what, where=f"{path}, line {number}", fix=fix) from error
        if number > 1 and word:
            found.append((word, say, plain_code(language)))
    return found


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
