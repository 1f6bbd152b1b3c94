"""Text to token ids, exactly as stock coqui-tts reads it, with faults reported instead of raised in mid-training."""

import importlib.util
from functools import cached_property
from pathlib import Path

from tokenizers import Tokenizer as BpeTokenizer

from utils.errors import UserError

UNKNOWN = "[UNK]"
START = "[START]"
STOP = "[STOP]"

# The languages that stock coqui-tts has cleaners for.
CLEANED_LANGUAGES = (
    "ar",
    "cs",
    "de",
    "en",
    "es",
    "fr",
    "hi",
    "hu",
    "it",
    "ja",
    "ko",
    "nl",
    "pl",
    "pt",
    "ru",
    "tr",
    "zh",
)


class Tokenizer:
    """The tokenizer of a base: `vocab.json` and the cleaners of each language.

    Args:
        vocab: a tokenizers file (BPE), as every XTTS base has it.

    Raises:
        UserError: the file is missing or not a tokenizer.
    """

    def __init__(self, vocab: Path) -> None:
        if not vocab.is_file():
            raise UserError(what="the base has no vocab.json", where=str(vocab), fix="download or make the base again")
        self.path = vocab
        try:
            self._bpe = BpeTokenizer.from_file(str(vocab))
        except Exception as error:
            raise UserError(what=f"not a tokenizer file: {error}", where=str(vocab)) from error
        self._ids: dict[str, int] = self._bpe.get_vocab()

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages that this base has a token and cleaners for."""
        return tuple(code for code in CLEANED_LANGUAGES if self._language_token(code) in self._ids)

    @property
    def num_rows(self) -> int:
        """Rows of the text embedding: the largest id + 1, because public vocabularies have holes."""
        return max(self._ids.values()) + 1

    def token_id(self, token: str) -> int:
        """Id of a special token such as `[START]`.

        Raises:
            UserError: the vocabulary has no such token.
        """
        if token not in self._ids:
            raise UserError(what=f"the vocabulary has no {token} token", where=str(self.path))
        return self._ids[token]

    def check_language(self, language: str) -> str:
        """The plain code of `language` when this base reads it (`zh-cn` is `zh`).

        Raises:
            UserError: unknown code, a language the base cannot read yet, or one whose text rules need a package that
                is not installed.
        """
        code = language.strip().lower().split("-")[0]
        if code not in self.languages:
            raise UserError(
                what=f"this base cannot read the language {language!r}",
                where=str(self.path),
                fix=f"use one of: {', '.join(self.languages)}",
            )
        _require_packages(code)
        return code

    def normalize(self, text: str, language: str) -> str:
        """`text` as the model reads it: numbers and symbols as words, lower case, romanised where the base wants it.

        Args:
            language: a code that `check_language` accepts.

        Raises:
            UserError: the language is not readable, or its cleaner fails on this text.
        """
        code = self.check_language(language)
        try:
            return self._cleaner.preprocess_text(text.strip().lower(), code).strip()
        except ImportError as error:
            raise UserError(
                what=f"language {code!r} needs another package: {error}", fix=_install_line(code)
            ) from error
        except (ArithmeticError, AttributeError, KeyError, NotImplementedError, TypeError, ValueError) as error:
            raise UserError(what=f"the {code} text rules cannot read {text[:60]!r}: {error}") from error

    def encode(self, text: str, language: str) -> list[int]:
        """Token ids of `text`, the language token first.

        Raises:
            UserError: as `normalize`.
        """
        return self._encode_normalized(self.normalize(text, language), self.check_language(language))

    def unknown_characters(self, text: str, language: str) -> list[str]:
        """Characters of the normalised text that the vocabulary cannot express, each once, in order.

        Raises:
            UserError: as `normalize`.
        """
        unknown = self.token_id(UNKNOWN)
        letters = dict.fromkeys(self.normalize(text, language).replace(" ", ""))
        return [letter for letter in letters if unknown in self._bpe.encode(letter).ids]

    def decode(self, ids: list[int]) -> str:
        """The normalised text of token ids, special tokens included."""
        return self._bpe.decode(ids, skip_special_tokens=False).replace(" ", "").replace("[SPACE]", " ")

    def _encode_normalized(self, text: str, code: str) -> list[int]:
        return self._bpe.encode(f"{self._language_token(code)}{text}".replace(" ", "[SPACE]")).ids

    @staticmethod
    def _language_token(code: str) -> str:
        return "[zh-cn]" if code == "zh" else f"[{code}]"

    @cached_property
    def _cleaner(self):  # type: ignore[no-untyped-def]
        # Imported when first used: it loads torch and the number words of every language.
        from TTS.tts.layers.xtts.tokenizer import VoiceBpeTokenizer

        return VoiceBpeTokenizer()


_PACKAGES = {"ja": ("cutlet", "unidic_lite"), "zh": ("pypinyin",)}
"""Modules that stock's text rules of a language import when they are first used."""


def _require_packages(code: str) -> None:
    """Look for what the language's rules need, without loading it.

    Raises:
        UserError: a package is missing.
    """
    missing = [name for name in _PACKAGES.get(code, ()) if importlib.util.find_spec(name) is None]
    # cutlet works with the large dictionary as well.
    if missing == ["unidic_lite"] and importlib.util.find_spec("unidic") is not None:
        return
    if missing:
        names = " and ".join(name.replace("_", "-") for name in missing)
        raise UserError(what=f"the language {code!r} needs {names}, not installed here", fix=_install_line(code))


def _install_line(code: str) -> str:
    packages = " ".join(_PACKAGES.get(code, ())).replace("_", "-")
    return f"run: pip install {packages}" if packages else ""
