"""Replace what a model cannot read: markup and pictures for speech, typographic marks for training, too."""

import html
import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import NamedTuple

from utils.text.punctuation import INSTEAD, plain_punctuation
from utils.text.unknown import without_accents

_MARKUP = (
    (re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE), " "),
    (re.compile(r"!?\[([^\[\]]*)\]\((?:[^()\s]|\([^()]*\))*\)"), r"\1"),
    (re.compile(r"[ \t]{0,4}\[\d+(?:[,–-]\d+)*\]"), ""),
    (re.compile(r"</?[a-zA-Z][^<>]*>|<![^<>]*>"), " "),
    (re.compile(r"^[ \t]{0,8}(?:```.*|[-*_=]{3,}|\|?(?:[ \t]{0,8}:?-+:?[ \t]*\|)+[ \t:-]*)$", re.MULTILINE), ""),
    (re.compile(r"^[ \t]{0,8}(?:#{1,6}|>+|[-*+•])[ \t]+", re.MULTILINE), ""),
    (re.compile(r"(?<=\S)[ \t]*\|[ \t]*(?=\S)|^[ \t]*\||\|[ \t]*$", re.MULTILINE), ", "),
    (re.compile(r"(?<![\d*])(\*{1,3}|~~|`+)(?=\S)(.{1,300}?)(?<=\S)\1(?![\d*])"), r"\2"),
    (re.compile(r"(?<!\w)(_{1,3})(?=\S)(.{1,300}?)(?<=\S)\1(?!\w)"), r"\2"),
)
"""What it looks like, and what is spoken of it; a product as 5*3*2 and a snake_case_name are none. Repeats have limits,
so that the time does not grow with the square of a text."""
MAX_NAMED = 20
"""Characters that a message names; of a text in a foreign script there may be thousands."""


_STYLES = ("<fraction>", "<super>", "<sub>", "<wide>", "<font>", "<circle>")


class Readable(NamedTuple):
    """A text as a model reads it."""

    text: str
    notes: tuple[str, ...]
    """What was dropped from it, or had no rule and is read literally, each once; empty when nothing."""


def named(unread: Iterable[str]) -> str:
    """What was dropped, for people: invisible characters by their code points."""
    shown = [one if one.isprintable() else " ".join(f"U+{ord(char):04X}" for char in one[:8]) for one in unread]
    more = f" and {len(shown) - MAX_NAMED} more" if len(shown) > MAX_NAMED else ""
    return " ".join(one if len(one) <= 40 else f"{one[:40]}…" for one in shown[:MAX_NAMED]) + more


def without_markup(text: str) -> Readable:
    """A text of a chat or a page without Markdown, tags, entities and citations."""
    unread: dict[str, None] = {}
    for pattern, instead in _MARKUP:

        def plain(match: re.Match[str], instead: str = instead) -> str:
            kept = match.expand(instead)
            around = match[0].split(kept.strip(), 1) if kept.strip() else [match[0]]
            # Replaced, as a table's bars by commas, is not dropped.
            if kept.strip() in match[0]:
                unread.update(dict.fromkeys(part.strip() for part in around if part.strip()))
            return kept

        text = pattern.sub(plain, text)
    return Readable("".join(map(_plain_letter, html.unescape(text))), tuple(unread))


def _plain_letter(char: str) -> str:
    """Letters and digits of mathematics, of full width, in circles, above the line: as they are on the line."""
    kind = unicodedata.decomposition(char).partition(" ")[0]
    if kind not in _STYLES or unicodedata.category(char)[0] not in "LN":
        return char
    plain = unicodedata.normalize("NFKC", char).replace("⁄", "/")
    return plain if char.isalpha() else f" {plain}"


def readable(text: str, unknown: list[str], is_known: Callable[[str], bool], *, letters: bool) -> Readable:
    """A text with its unknown characters replaced by known ones, or dropped.

    Args:
        text: any.
        unknown: characters of it that the model has no token for.
        is_known: whether the model can read a text.
        letters: replace and drop letters as well; else a text keeps those that are unknown.
    """
    table: dict[str, str] = {}
    unread = []
    for character in unknown:
        if unicodedata.category(character[0])[0] in "LMN" and not letters:
            continue
        plain = without_accents(character)
        ascii_mark = plain_punctuation(character, "")
        choices = (INSTEAD.get(character), plain.replace("⁄", "/"), INSTEAD.get(plain), ascii_mark, ",")
        is_dash = unicodedata.category(character[0]) == "Pd"
        known = (c for c in choices[: 5 if is_dash else 4] if c and c != character and is_known(c))
        table[character] = next(known, " ")
        # Joiners shape what is beside them, and have no sound.
        is_silent = character.isspace() or unicodedata.category(character) == "Cf"
        if table[character] == " " and character not in INSTEAD and not is_silent:
            unread.append(character)
    whole = "".join(table.get(char, char) for char in text)
    return Readable(" ".join(whole.split()), tuple(unread))
