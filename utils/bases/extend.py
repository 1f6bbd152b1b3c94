"""Extend a base by a language: its vocabulary from the words of a corpus, its weights grown to match."""

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from utils.bases.amharic import latin_extension
from utils.bases.base import Base
from utils.bases.catalog import base_home
from utils.bases.grow import grow_base
from utils.errors import UserError
from utils.text.languages import plain_code
from utils.text.vocabulary.corpus import extract, fingerprint, iter_texts, read_note, save_note, work_folder
from utils.text.vocabulary.extend import extend_vocabulary
from utils.text.vocabulary.learn import SPECIALS, learn_pieces, read_words, rule_letters
from utils.text.vocabulary.letters import Extension

MOST_TEXTS = 200_000
"""Texts that are counted."""
SAVE_EVERY = 20_000
"""Texts between notes of how far a count is."""


def count_words(texts: Path, language: str, work: Path) -> Counter[str]:
    """The normalized words of the first `MOST_TEXTS` texts.

    Args:
        texts: plain text, a text a line.
        language: its code.
        work: folder of the note from which an interrupted count resumes; the caller removes it.
    """
    note, source = work / "words.json", [*fingerprint(texts), language]
    saved = read_note(note, source)
    done, counts = saved.get("texts", 0), Counter[str](saved.get("counts"))
    number = done
    for number, text in enumerate(islice(iter_texts(texts), done, MOST_TEXTS), start=done + 1):
        counts.update(read_words(text, language))
        if number % SAVE_EVERY == 0:
            save_note(note, source=source, texts=number, counts=counts)
    save_note(note, source=source, texts=number, counts=counts)
    return counts


log = logging.getLogger(__name__)

SPARE = 1.5
"""Candidates learned for each token wanted: some turn out to be steps to others, or of the base's own letters."""


@dataclass(frozen=True, kw_only=True)
class AddedLanguage:
    """A base with another language."""

    base: Base
    extension: Extension

    @property
    def ids(self) -> str:
        """The new ids, for people."""
        new = sorted(self.extension.pieces)
        return f"{new[0]} to {new[-1]}" if new else "none: the base has them"


def add_language(
    base: Base,
    language: str,
    folder: Path,
    *,
    corpus: Path,
    target: int = 2_000,
    amharic_g2p: bool = False,
    input_sentence_size: int = 10_000_000,
    coverage: float = 0.9995,
    about: Mapping[str, Any] | None = None,
    dvae: Path | None = None,
    another: bool = False,
) -> AddedLanguage:
    """Learn a vocabulary from a corpus and grow the base by it.

    Args:
        base: what to start from; it stays as it is.
        language: code of the language to add.
        folder: gets base-<language>, base-<language>-dvae with a DVAE of its own; a temporary folder while the
            corpus is read.
        corpus: .csv, .json, .jsonl or plain text.
        target: tokens added at most, the language's own token not counted; 0 adds that alone, and for the Latin form of
            Amharic the letters that the base lacks.
        amharic_g2p: the new base reads Amharic in its Latin form.
        input_sentence_size: sentences sampled; 0 takes all.
        coverage: share of the letters that get a token.
        about: more facts for the new base's about.json.
        dvae: weights of a DVAE of its own.
        another: where that folder exists, make it beside it: base-<language>-2, and so on.

    Raises:
        UserError: no words in the corpus, or the new base's folder exists.
    """
    code = plain_code(language)
    home = free_home(folder, code, own_dvae=dvae is not None, another=another)
    if target:
        with work_folder(folder / f".corpus-{code}") as work:
            texts = extract(corpus, work)
            words = count_words(texts, code, work)
            pieces = learn_pieces(
                texts,
                code,
                # Letters take ids among the pieces, too.
                size=int(SPARE * target) + len(set("".join(words))) + SPECIALS,
                input_sentence_size=input_sentence_size,
                coverage=coverage,
            )
        # Letters before joins: a word that is not in the corpus must still be spelled.
        letters, joins = ([piece for piece in pieces if (len(piece) > 1) == more] for more in (False, True))
        extension = extend_vocabulary(
            base.vocab, code, [*letters, *rule_letters(code), *joins], target=target, words=words
        )
    else:
        extension = latin_extension(base.vocab) if amharic_g2p else extend_vocabulary(base.vocab, code)
    # A base that has the language already may only get a DVAE, or more of its text.
    number = home.name.removeprefix(base_home(folder, code, own_dvae=dvae is not None).name).lstrip("-")
    parts = [base.name, code if extension.pieces else "", "dvae" if dvae else "", number]
    facts = {"name": "-".join(filter(None, parts)), "language": code, "amharic_g2p": amharic_g2p or base.amharic_g2p}
    grown = grow_base(base, extension.content, extension.pieces, home, {**facts, **(about or {})}, dvae=dvae)
    log.info("a base with %d more tokens is in %s", len(extension.pieces), home)
    return AddedLanguage(base=grown, extension=extension)


def free_home(folder: Path, language: str, *, own_dvae: bool, another: bool = False) -> Path:
    """Where the new base will lie; see `utils.bases.catalog.base_home`.

    Raises:
        UserError: something is there.
    """
    home = base_home(folder, language, own_dvae=own_dvae, another=another)
    if home.exists():
        fix = f"give --another to make {base_home(folder, language, own_dvae=own_dvae, another=True).name} beside it"
        raise UserError(what=f"{home.name} already exists", where=str(home), fix=f"{fix}, or move it away")
    return home
