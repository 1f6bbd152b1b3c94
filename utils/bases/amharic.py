"""Amharic's Latin form on a base: find the missing letters, and build a tokenizer that has them."""

import tempfile
from pathlib import Path

from utils.bases.base import Base
from utils.errors import UserError
from utils.text.amharic.sounds import LATIN_LETTERS
from utils.text.languages import AMHARIC, plain_code
from utils.text.tokenizer import Tokenizer
from utils.text.vocabulary.letters import Extension, add_letters


def latin_extension(vocab: Path) -> Extension:
    """A base's tokenizer with Amharic's token and those letters of the Latin form that it lacks; mostly none.

    XTTS v2 reads all of them, an English base a to z. A new letter begins as its sound: č as c, ä as a.
    """
    return add_letters(vocab, AMHARIC, LATIN_LETTERS)


def language_tokenizer(base: Base, language: str, *, use_amharic_g2p: bool) -> Tokenizer:
    """What training would read with, for planning and preparing: training copies a whole base for it.

    Raises:
        UserError: as `needs_latin`.
    """
    if not needs_latin(base, language, use_amharic_g2p=use_amharic_g2p):
        return base.tokenizer()
    with tempfile.TemporaryDirectory() as scratch:
        vocab = Path(scratch) / "vocab.json"
        vocab.write_text(latin_extension(base.vocab).content, encoding="utf-8")
        return Tokenizer(vocab, amharic_g2p=True)


def needs_latin(base: Base, language: str, *, use_amharic_g2p: bool) -> bool:
    """Whether the base has yet to learn to read Amharic in its Latin form.

    Raises:
        UserError: the Latin form is asked for another language, or a base that learned it is to read Ethiopic letters.
    """
    language = plain_code(language)
    if not use_amharic_g2p:
        if base.amharic_g2p and language == AMHARIC:
            raise UserError(
                what="this base expects Amharic in Latin script, but use_amharic_g2p is off",
                where=str(base.folder),
                fix="set use_amharic_g2p, or start from the original base",
            )
        return False
    if language != AMHARIC:
        raise UserError(
            what=f"use_amharic_g2p is for Amharic, but the language is {language!r}",
            where="settings",
            fix="set language to amh, or switch use_amharic_g2p off",
        )
    return not base.amharic_g2p
