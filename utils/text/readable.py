"""Replace what a model cannot read: markup and pictures for speech, typographic marks for training, too."""

import html
import re
import unicodedata
from collections.abc import Callable
from typing import NamedTuple

from utils.text.unknown import INSTEAD

_MARKUP = (
    (re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE), " "),
    (re.compile(r"!?\[([^\[\]]*)\]\((?:[^()\s]|\([^()]*\))*\)"), r"\1"),
    (re.compile(r"[ \t]*\[\d+(?:[,–-]\d+)*\]"), ""),
    (re.compile(r"</?[a-zA-Z][^<>]*>"), " "),
    (re.compile(r"^[ \t]*(?:```.*|[-*_=]{3,}|\|?(?:[ \t]*:?-+:?[ \t]*\|)+[ \t:-]*)$", re.MULTILINE), ""),
    (re.compile(r"^[ \t]*(?:#{1,6}|>+|[-*+•])[ \t]+", re.MULTILINE), ""),
    (re.compile(r"(?<=\S)[ \t]*\|[ \t]*(?=\S)|^[ \t]*\||\|[ \t]*$", re.MULTILINE), ", "),
    (re.compile(r"(\*{1,3}|_{1,3}|~~|`+)(?=\S)(.+?)(?<=\S)\1"), r"\2"),
)


_STYLES = ("<fraction>", "<super>", "<sub>", "<wide>", "<font>", "<circle>")


class Readable(NamedTuple):
    """A text that a model can read."""

    text: str
    unread: tuple[str, ...]
    """What was left out of it, each character once."""


def without_markup(text: str) -> str:
    """A text of a chat or a page without Markdown, tags, entities and citations."""
    for pattern, instead in _MARKUP:
        text = pattern.sub(instead, text)
    return "".join(map(_plain_letter, html.unescape(text)))


def _plain_letter(char: str) -> str:
    """Letters and digits of mathematics, of full width, in circles, above the line: as they are on the line."""
    kind = unicodedata.decomposition(char).partition(" ")[0]
    if kind not in _STYLES or unicodedata.category(char)[0] not in "LN":
        return char
    plain = unicodedata.normalize("NFKC", char).replace("⁄", "/")
    return plain if char.isalpha() else f" {plain}"


def readable(text: str, unknown: list[str], is_known: Callable[[str], bool], *, letters: bool) -> Readable:
    """A text with its unknown characters replaced by known ones, or left out.

    Args:
        text: any.
        unknown: characters of it that the model has no token for.
        is_known: whether the model can read a text.
        letters: replace and leave out letters as well; else a text keeps those that are unknown.
    """
    table: dict[str, str] = {}
    unread = []
    for character in unknown:
        if unicodedata.category(character[0])[0] in "LMN" and not letters:
            continue
        plain = "".join(c for c in unicodedata.normalize("NFKD", character) if not unicodedata.combining(c))
        choices = (INSTEAD.get(character), plain.replace("⁄", "/"), INSTEAD.get(plain), ",")
        is_dash = unicodedata.category(character[0]) == "Pd"
        known = (c for c in choices[: 4 if is_dash else 3] if c and c != character and is_known(c))
        table[character] = next(known, " ")
        if table[character] == " " and character not in INSTEAD and not character.isspace():
            unread.append(character)
    whole = "".join(table.get(char, char) for char in text)
    return Readable(" ".join(whole.split()), tuple(unread))
