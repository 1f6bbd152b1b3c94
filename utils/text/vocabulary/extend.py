"""Write a language's tokens and merges into a base's tokenizer file.

A merge is added only if its product has a letter that the base could not read. Text of an old language has no such
letter, so its segmentation never changes. Pieces of known letters are counted and left to the base's own merges.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from tokenizers import Tokenizer as BpeTokenizer

from utils.text.languages import language_token, plain_code
from utils.text.vocabulary.letters import Extension, old_pieces, read_vocabulary, write_vocabulary
from utils.text.vocabulary.merge import BEYOND, UNSEEN, choose_merges

PROOF_WORDS = 100_000
"""Distinct words, the most frequent ones, in which each added token must occur."""
KNOWN = "already in the base"
SHARED = "of letters the base reads, which would change old languages"
_UNKNOWN = "[UNK]"


def extend_vocabulary(
    vocab: Path,
    language: str,
    candidates: Iterable[str] = (),
    *,
    target: int = 2_000,
    words: Mapping[str, int] | None = None,
) -> Extension:
    """A base's tokenizer with the language's token and at most `target` more that the corpus really gives.

    Args:
        vocab: a tokenizers file.
        language: code of the language to add.
        candidates: pieces from `learn_pieces`: letters, and joins in the order in which they were made.
        target: tokens added at most, the language token not counted; letters come first.
        words: distinct words of the corpus with how often it has them; no joins are added without.

    Raises:
        UserError: the file is not a tokenizer.
    """
    data = read_vocabulary(vocab)
    old: dict[str, int] = dict(data["model"]["vocab"])
    candidates = list(dict.fromkeys(candidates))
    fresh = [piece for piece in candidates if piece not in old]
    letters = [piece for piece in fresh if len(piece) == 1]
    new_letters = set(letters[:target])
    joins = [piece for piece in fresh if len(piece) > 1 and not new_letters.isdisjoint(piece)]
    counts = dict(Counter(words or {}).most_common(PROOF_WORDS))
    banned: set[str] = set()
    tokenizer = BpeTokenizer.from_str(write_vocabulary(data, language, letters[:target], []))
    while True:
        # Over what the base's own merges leave of the words.
        merges = choose_merges(
            joins,
            counts,
            lambda texts: [encoding.tokens for encoding in tokenizer.encode_batch(texts)],
            most=target - len(new_letters),
            usable=lambda piece: piece not in old and _UNKNOWN not in piece and not new_letters.isdisjoint(piece),
            banned=frozenset(banned),
        )
        content = write_vocabulary(data, language, letters[:target], merges.pairs)
        idle = _unseen(content, merges.made, counts)
        if not idle:
            break
        # Symbols of a word that the tokenizer takes apart before any merge: what stands across them cannot be joined.
        banned |= idle
    added = [*letters[:target], *merges.made]
    left_out = {piece: KNOWN for piece in candidates if piece in old} | dict.fromkeys(letters[target:], BEYOND)
    left_out |= {piece: SHARED for piece in fresh if len(piece) > 1 and new_letters.isdisjoint(piece)}
    left_out |= merges.left_out | dict.fromkeys(banned & set(joins), UNSEEN)
    pieces = old_pieces(vocab, content, old, [language_token(plain_code(language)), *added])
    return Extension(content=content, pieces=pieces, added=added, left_out=left_out, num_found=merges.num_found)


def _unseen(content: str, made: Iterable[str], words: dict[str, int]) -> set[str]:
    """New tokens that no word's segmentation by the tokenizer itself holds."""
    tokenizer, idle = BpeTokenizer.from_str(content), set(made)
    for encoding in tokenizer.encode_batch(list(words)):
        idle.difference_update(encoding.tokens)
    return idle
