"""Write a language's tokens and merges into a base's tokenizer file.

A merge is added only if its product has a letter that the base could not read. Text of an old language has no such
letter, so its segmentation never changes. Pieces of known letters are counted and left to the base's own merges.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyascii import anyascii
from tokenizers import Tokenizer as BpeTokenizer

from utils.errors import UserError
from utils.text.languages import code_of_token, language_token, plain_code
from utils.text.vocabulary.merge import BEYOND, UNSEEN, Pair, choose_merges

PROOF_WORDS = 100_000
"""Distinct words, the most frequent ones, in which each added token must occur."""
KNOWN = "already in the base"
SHARED = "of letters the base reads, which would change old languages"
_UNKNOWN = "[UNK]"


@dataclass(frozen=True, kw_only=True)
class Extension:
    """A larger vocabulary, not written anywhere yet."""

    content: str
    """The tokenizer file."""
    pieces: dict[int, list[int]]
    """For each new id the old ids of its text, letters new to the base by their Latin sounds; of the language token all
    old language tokens."""
    added: list[str]
    """New tokens without the language token, in the order of their ids."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Every candidate that is not among them, with its reason."""
    num_found: int = 0
    """Tokens among `added` that were no candidates: pairs that the corpus's words repeat."""

    @property
    def reasons(self) -> Counter[str]:
        """How many candidates were dropped for each reason."""
        return Counter(self.left_out.values())


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
    data = _read(vocab)
    old: dict[str, int] = dict(data["model"]["vocab"])
    candidates = list(dict.fromkeys(candidates))
    fresh = [piece for piece in candidates if piece not in old]
    letters = [piece for piece in fresh if len(piece) == 1]
    new_letters = set(letters[:target])
    joins = [piece for piece in fresh if len(piece) > 1 and not new_letters.isdisjoint(piece)]
    counts = dict(Counter(words or {}).most_common(PROOF_WORDS))
    banned: set[str] = set()
    tokenizer = BpeTokenizer.from_str(_write(data, language, letters[:target], []))
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
        content = _write(data, language, letters[:target], merges.pairs)
        idle = _unseen(content, merges.made, counts)
        if not idle:
            break
        # Symbols of a word that the tokenizer takes apart before any merge: what stands across them cannot be joined.
        banned |= idle
    added = [*letters[:target], *merges.made]
    left_out = {piece: KNOWN for piece in candidates if piece in old} | dict.fromkeys(letters[target:], BEYOND)
    left_out |= {piece: SHARED for piece in fresh if len(piece) > 1 and new_letters.isdisjoint(piece)}
    left_out |= merges.left_out | dict.fromkeys(banned & set(joins), UNSEEN)
    pieces = _pieces(vocab, content, old, [language_token(plain_code(language)), *added])
    return Extension(content=content, pieces=pieces, added=added, left_out=left_out, num_found=merges.num_found)


def _read(vocab: Path) -> dict[str, Any]:
    try:
        BpeTokenizer.from_file(str(vocab))
        data = json.loads(vocab.read_text(encoding="utf-8"))
        assert isinstance(data["model"]["vocab"], dict) and isinstance(data["model"]["merges"], list)
    except Exception as error:
        raise UserError(what=f"not a tokenizer file: {error}", where=str(vocab)) from error
    return dict(data)


def _write(data: dict[str, Any], language: str, letters: list[str], pairs: list[Pair]) -> str:
    """The tokenizer file with the language's token, new letters and new merges."""
    data = json.loads(json.dumps(data))
    ids, merges = data["model"]["vocab"], data["model"]["merges"]
    as_text = bool(merges) and isinstance(merges[0], str)
    number = max([*ids.values(), *(token["id"] for token in data["added_tokens"])]) + 1
    token = language_token(plain_code(language))
    if token not in ids:
        ids[token] = number
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        data["added_tokens"].append({"id": number, "content": token, **flags})
        number += 1
    merges.extend(" ".join(pair) if as_text else list(pair) for pair in pairs)
    ids.update({piece: number + at for at, piece in enumerate([*letters, *("".join(pair) for pair in pairs)])})
    return json.dumps(data, ensure_ascii=False)


def _unseen(content: str, made: list[str], words: dict[str, int]) -> set[str]:
    """New tokens that no word's segmentation by the tokenizer itself holds."""
    tokenizer, idle = BpeTokenizer.from_str(content), set(made)
    for encoding in tokenizer.encode_batch(list(words)):
        idle.difference_update(encoding.tokens)
    return idle


def _pieces(vocab: Path, content: str, old: dict[str, int], tokens: list[str]) -> dict[int, list[int]]:
    """For each new id the old ids of its text; none where even its sounds are nothing to the base.

    A letter that the base never saw stands for its Latin transliteration (anyascii): the model knows those sounds, and
    so begins with a reading of the new script rather than with noise.
    """
    before, new = BpeTokenizer.from_file(str(vocab)), json.loads(content)["model"]["vocab"]
    unknown = old.get("[UNK]")
    languages = [number for token, number in old.items() if code_of_token(token)]
    found = {}
    for token in tokens:
        if token in old:
            continue
        sounds = "".join(char if char in old else anyascii(char).lower() for char in token)
        ids = languages if code_of_token(token) else before.encode(sounds).ids
        found[new[token]] = [number for number in ids if number != unknown]
    return found
