"""Convert text to token ids exactly as stock coqui-tts does, and report errors before training."""

import unicodedata
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer as BpeTokenizer

from utils.errors import UserError
from utils.project.advice import extend_command
from utils.text.amharic.sounds import to_latin_text
from utils.text.languages import AMHARIC, code_of_token, language_token, plain_code, require_packages
from utils.text.normalize import normalize
from utils.text.punctuation import INSTEAD
from utils.text.readable import Readable, readable, without_markup

if TYPE_CHECKING:
    from utils.project.paths import Project

UNKNOWN = "[UNK]"
SPACE = "[SPACE]"
START = "[START]"
STOP = "[STOP]"
MAX_BYTES, MAX_ROWS = 100 * 2**20, 1_000_000
"""Of a vocabulary; one of ten million tokens would fill the memory before anything else is known of its model."""
_UNSPOKEN = ("So", "Sk", "Cc", "Cf", "Co", "Cs", "Cn")
"""Unicode categories of pictures and of characters that mean nothing."""


class Tokenizer:
    """The tokenizer of a base: `vocab.json` and the cleaners of each language.

    Args:
        vocab: a tokenizers file (BPE), as every XTTS base has it.
        amharic_g2p: read Amharic in its Latin form instead of Ethiopic letters.

    Raises:
        UserError: the file is missing, far too large or not a tokenizer.
    """

    def __init__(self, vocab: Path, *, amharic_g2p: bool = False) -> None:
        if not vocab.is_file():
            raise UserError(
                what="the base has no vocab.json", where=str(vocab), fix="download or create the base again"
            )
        self.path = vocab
        self.amharic_g2p = amharic_g2p
        if (size := vocab.stat().st_size) > MAX_BYTES:
            raise self._too_large(f"{size:,} bytes", f"{MAX_BYTES:,}")
        try:
            self._bpe = BpeTokenizer.from_file(str(vocab))
        except Exception as error:
            raise UserError(what=f"not a tokenizer file: {error}", where=str(vocab)) from error
        self._ids: dict[str, int] = self._bpe.get_vocab()
        if self.num_rows > MAX_ROWS:
            raise self._too_large(f"tokens up to number {self.num_rows - 1:,}", f"{MAX_ROWS:,}")
        self._known: dict[str, bool] = {}

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages that this base has a token for, in alphabetical order."""
        return tuple(sorted(filter(None, map(code_of_token, self._ids))))

    @property
    def num_rows(self) -> int:
        """Rows of the text embedding: the largest id + 1, because public vocabularies have holes."""
        return max(self._ids.values(), default=-1) + 1

    def _too_large(self, found: str, limit: str) -> UserError:
        return UserError(
            what=f"the vocabulary has {found}, and at most {limit} can be used",
            where=str(self.path),
            fix="use the vocab.json that belongs to the model",
        )

    def ids_beyond(self, other: "Tokenizer") -> list[int]:
        """Ids that stand for a token here and for none in the other vocabulary."""
        return sorted(set(self._ids.values()) - set(other._ids.values()))

    def token_id(self, token: str) -> int:
        """Id of a special token such as `[START]`.

        Raises:
            UserError: the vocabulary has no such token.
        """
        if token not in self._ids:
            raise UserError(what=f"the vocabulary has no {token} token", where=str(self.path))
        return self._ids[token]

    def check_language(self, language: str, *, base: str = "", project: "Project | None" = None) -> str:
        """The plain code of `language` when this base reads it (`zh-cn` is `zh`).

        Args:
            language: its code.
            base: what the user calls this base, for the message.
            project: for which it is asked, for the message.

        Raises:
            UserError: unknown code, a language the base cannot read yet, or one whose text rules need a package that
                is not installed.
        """
        code = plain_code(language)
        if code not in self.languages:
            latin = "; or convert it to Latin script: --use-amharic-g2p" if code == AMHARIC else ""
            raise UserError(
                what=f"this base cannot read the language {language!r}",
                where=str(self.path),
                fix=f"use one of: {', '.join(self.languages)}; or add it: "
                f"{extend_command(code, base or self.path.parent, project)}{latin}",
            )
        require_packages(code)
        return code

    def normalize(self, text: str, language: str) -> str:
        """`text` as the model reads it: numbers and symbols as words, lower case, romanised where the base wants it.

        Args:
            language: a code that `check_language` accepts.

        Raises:
            UserError: the language is not readable, or its cleaner fails on this text.
        """
        code = self.check_language(language)
        if code == AMHARIC and self.amharic_g2p:
            return to_latin_text(normalize(text, code).text)
        read = normalize(text, code).text
        # Letters say another thing when they are replaced; of marks a base may know fewer than people write.
        marks = [char for char in dict.fromkeys(read) if _is_mark(char) and not self._knows(char)]
        return readable(read, marks, self._knows, letters=False).text if marks else read

    def readable(self, text: str, language: str) -> Readable:
        """A text to speak without markup, with what this base cannot read replaced, spelled or dropped.

        Raises:
            UserError: as `normalize`.
        """
        code = self.check_language(language)
        plain, markup = without_markup(unicodedata.normalize("NFC", text))
        pictures = [char for char in dict.fromkeys(plain) if _is_picture(char)]
        # Invisible ones stand inside words.
        shown = plain.translate({ord(char): "" if unicodedata.category(char) == "Cf" else " " for char in pictures})
        # Marks that `normalize` drops, too.
        silent = (char for char in dict.fromkeys(shown) if _is_mark(char) and char not in INSTEAD)
        marks = (char for char in silent if not self._knows(char) and not self.normalize(char, code))
        unread = (*markup, *(char for char in pictures if not char.isspace()), *marks)
        if not self.unknown_characters(shown, code):
            return Readable(shown, unread)
        # In the text as it was written: a normalized one is not what the rules of its language read.
        lacking = [char for char in dict.fromkeys(shown) if self.unknown_characters(char, code)]
        shown, more = readable(shown, lacking, self._knows, letters=True)
        if rest := self.unknown_characters(shown, code):  # of words that the rules made
            shown, last = readable(self.normalize(shown, code), rest, self._knows, letters=True)
            more = (*more, *last)
        return Readable(shown, (*unread, *more))

    def _knows(self, text: str) -> bool:
        if text not in self._known:
            self._known[text] = self.token_id(UNKNOWN) not in self._bpe.encode(text.lower()).ids
        return self._known[text]

    def notes(self, text: str, language: str) -> tuple[str, ...]:
        """What of `text` has no rule in this language and is read literally or dropped; mostly nothing.

        Raises:
            UserError: as `normalize`.
        """
        return normalize(text, self.check_language(language)).notes

    def encode(self, text: str, language: str) -> list[int]:
        """Token ids of `text`, the language token first.

        Raises:
            UserError: as `normalize`.
        """
        return self.encode_normalized(self.normalize(text, language), self.check_language(language))

    def word_starts(self, text: str, language: str) -> list[int] | None:
        """With which token each word of `text` begins, counted with the language token, and the number of tokens.

        None where normalizing makes other words of them, such as a number's.

        Raises:
            UserError: as `normalize`.
        """
        words = self.normalize(text, language).split(" ")
        if len(words) != len(text.split()):
            return None
        prefix = language_token(self.check_language(language))
        encoding = self._bpe.encode(prefix + SPACE.join(words))
        sizes = [len(word) + len(SPACE) for word in words[:-1]]
        begins = accumulate(sizes, initial=len(prefix))
        ends = [end for _, end in encoding.offsets]
        # The first token that reaches beyond the place where the word begins.
        return [*(bisect_right(ends, begin) for begin in begins), len(ends)]

    def unknown_characters(self, text: str, language: str) -> list[str]:
        """Characters of the normalized text that the vocabulary cannot express, each once, in order.

        Raises:
            UserError: as `normalize`.
        """
        unknown = self.token_id(UNKNOWN)
        letters = dict.fromkeys(self.normalize(text, language).replace(" ", ""))
        return [letter for letter in letters if unknown in self._bpe.encode(letter).ids]

    def segments(self, normalized: str) -> list[str]:
        """The tokens of a text that is normalized already, without a language token; `[UNK]` where it has none."""
        return self._bpe.encode(normalized.replace(" ", "[SPACE]")).tokens

    def decode(self, ids: list[int]) -> str:
        """The normalized text of token ids, special tokens included."""
        return self._bpe.decode(ids, skip_special_tokens=False).replace(" ", "").replace("[SPACE]", " ")

    def encode_normalized(self, text: str, code: str) -> list[int]:
        """Token ids of what `normalize` gave for a plain language code, the language token first."""
        return self._bpe.encode(f"{language_token(code)}{text}".replace(" ", SPACE)).ids


def _is_picture(char: str) -> bool:
    """Whether a character has no sound in any language; joiners belong to their letters, degrees may get a word."""
    is_letter = any(map(str.isalnum, unicodedata.normalize("NFKC", char))) or char in "\u200c\u200d°"
    return unicodedata.category(char) in _UNSPOKEN and not is_letter


def _is_mark(char: str) -> bool:
    """Whether a character is punctuation that people write in several ways."""
    return not char.isalnum() and (char in INSTEAD or unicodedata.category(char)[0] == "P")
