"""Learn frequent word pieces of a corpus with SentencePiece (byte-pair encoding), most useful first."""

import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import regex
import sentencepiece

from utils.errors import UserError
from utils.text.amharic.normalize import ABBREVIATIONS
from utils.text.languages import AMHARIC, plain_code, require_packages
from utils.text.normalize import normalize
from utils.text.vocabulary.corpus import iter_texts

log = logging.getLogger(__name__)

_BREAK = "\u241f"
"""Stands between words for SentencePiece: no piece crosses it, and no piece carries a mark for a space."""
_WORD = regex.compile(r"\p{L}[\p{L}\p{M}\u200c\u200d]*")
"""Letters with the marks that most scripts of Asia write vowels with, and the joiners that Persian words hold."""
_NUMBERS = " ".join(map(str, [*range(21), *range(30, 100, 10), 100, 1_000, 10**6, 10**9, "2.5", "-3", "50%", "$5"]))
_TOO_LARGE = re.compile(r"<= (\d+)")
SPECIALS = 1
"""SentencePiece's own entries: unknown."""


def iter_words(corpus: Path, language: str) -> Iterator[list[str]]:
    """The words of each text, normalized; texts without any are skipped."""
    for text in iter_texts(corpus):
        words = read_words(text, language)
        if words:
            yield words


def read_words(text: str, language: str) -> list[str]:
    """The words of one text, normalized; none of a text that the language's rules cannot read: one among millions.

    Raises:
        UserError: the rules need a package that is not installed.
    """
    require_packages(plain_code(language))
    try:
        return words_of(normalize(text, language).text)
    except UserError as error:
        log.warning("a text of the corpus is skipped: %s", error.what)
        return []


def rule_letters(language: str) -> list[str]:
    """Letters that a language's text rules write, of number words and abbreviations: a corpus need not hold them."""
    code = plain_code(language)
    samples = [_NUMBERS, *(ABBREVIATIONS if code == AMHARIC else ())]
    return sorted({char for sample in samples for word in words_of(normalize(sample, code).text) for char in word})


def words_of(text: str) -> list[str]:
    """Runs of letters and their marks: numbers and punctuation take no place in a vocabulary."""
    return [str(word) for word in _WORD.findall(text)]


def learn_pieces(
    corpus: Path, language: str, *, size: int, input_sentence_size: int = 10_000_000, coverage: float = 0.9995
) -> list[str]:
    """At most `size` pieces, letters included, in the order in which SentencePiece made them.

    Args:
        corpus: plain text, a sentence a line.
        language: code of its language.
        size: pieces wanted; fewer come when the corpus has no more to give.
        input_sentence_size: sentences that are sampled; 0 takes all.
        coverage: share of the letters that get a piece.

    Raises:
        UserError: the corpus has no words.
    """
    if next(iter_words(corpus, language), None) is None:
        raise UserError(what="the corpus contains no words", where=str(corpus), fix="use a text in the language to add")
    try:
        return _train(corpus, language, size, input_sentence_size, coverage)
    except RuntimeError as error:
        found = _TOO_LARGE.search(str(error))
        if found is None:
            raise UserError(what=f"SentencePiece cannot learn from this corpus: {error}", where=str(corpus)) from error
        log.warning("the corpus gives at most %s pieces; %d were requested", found[1], size)
        return _train(corpus, language, int(found[1]), input_sentence_size, coverage)


def _train(corpus: Path, language: str, size: int, input_sentence_size: int, coverage: float) -> list[str]:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(_BREAK.join(words) for words in iter_words(corpus, language)),
        model_writer=model,
        model_type="bpe",
        vocab_size=size,
        character_coverage=coverage,
        input_sentence_size=input_sentence_size,
        shuffle_input_sentence=input_sentence_size > 0,
        max_sentence_length=1 << 20,
        train_extremely_large_corpus=True,
        normalization_rule_name="identity",
        pretokenization_delimiter=_BREAK,
        add_dummy_prefix=False,
        # Words never mix with their neighbors, and marks and joiners belong to no script.
        split_by_unicode_script=False,
        bos_id=-1,
        eos_id=-1,
        num_threads=2,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [processor.id_to_piece(number) for number in range(SPECIALS, processor.get_piece_size())]
    return [piece for piece in pieces if "\u2581" not in piece and _BREAK not in piece]
