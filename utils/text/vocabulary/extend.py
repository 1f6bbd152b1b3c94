"""Tokens and merges of a language written into a base's tokenizer file.

A merge is added only where its product holds a letter that the base could not read: the text of an old language never
holds one, so its segmentation stays the same whatever is added. Pieces of letters that the base reads already are left
to the base's own merges, and counted.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from anyascii import anyascii
from tokenizers import Tokenizer as BpeTokenizer

from utils.errors import UserError
from utils.text.languages import code_of_token, language_token, plain_code

PROOF_TEXTS = 200_000
"""Texts of the corpus in which each added token must occur."""


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
    unproduced: int = 0
    """Candidates left out because no text of the corpus would have produced them, or something made of them."""
    shared: int = 0
    """Candidates left out because the base reads all of their letters, and old segmentations would have changed."""
    notes: list[str] = field(default_factory=list)


def extend_vocabulary(
    vocab: Path, language: str, candidates: Iterable[str] = (), *, target: int = 2_000, words: Iterable[list[str]] = ()
) -> Extension:
    """A base's tokenizer with the language's token and at most `target` more that the corpus really produces.

    Args:
        vocab: a tokenizers file.
        language: code of the language to add.
        candidates: pieces from `learn_pieces`: letters, and joins in the order in which they were made.
        target: tokens added at most, the language token not counted.
        words: words of the corpus, text by text, that prove the tokens.

    Raises:
        UserError: the file is not a tokenizer.
    """
    data = _read(vocab)
    old: dict[str, int] = dict(data["model"]["vocab"])
    known = {token for token in old if len(token) == 1}
    candidates = list(dict.fromkeys(candidates))
    letters = [piece for piece in candidates if len(piece) == 1 and piece not in known]
    joins = [piece for piece in candidates if len(piece) > 1 and piece not in old]
    usable = [piece for piece in joins if any(char in letters for char in piece)]
    counts = Counter(word for text in islice(words, PROOF_TEXTS) for word in text)
    banned: set[str] = set()
    while True:
        chosen = [piece for piece in [*letters, *usable] if piece not in banned]
        content, added = _write(data, language, chosen, target)
        idle = _unproduced(content, added, counts) if counts else set()
        if not idle:
            break
        # A token that only ever is a step towards a longer one gets its place when the longer one goes.
        banned |= _made_of(content, added, idle) or idle
    token = language_token(plain_code(language))
    pieces = _pieces(vocab, content, old, [token, *added])
    return Extension(
        content=content, pieces=pieces, added=added, unproduced=len(banned), shared=len(joins) - len(usable)
    )


def _read(vocab: Path) -> dict[str, Any]:
    try:
        BpeTokenizer.from_file(str(vocab))
        data = json.loads(vocab.read_text(encoding="utf-8"))
        assert isinstance(data["model"]["vocab"], dict) and isinstance(data["model"]["merges"], list)
    except Exception as error:
        raise UserError(what=f"not a tokenizer file: {error}", where=str(vocab)) from error
    return dict(data)


def _write(data: dict[str, Any], language: str, chosen: list[str], target: int) -> tuple[str, list[str]]:
    """The tokenizer file with the language's token and the chosen pieces, and which of them found a place."""
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
    added: list[str] = []
    ranks: dict[tuple[str, str], int] = {}
    for piece in chosen:
        if len(added) == target:
            break
        pair = _pair(piece, ranks) if len(piece) > 1 else None
        if len(piece) > 1 and pair is None:
            continue
        if pair is not None:
            if not all(half in ids for half in pair):
                continue
            ranks[pair] = len(ranks)
            merges.append(" ".join(pair) if as_text else list(pair))
        ids[piece] = number
        number += 1
        added.append(piece)
    return json.dumps(data, ensure_ascii=False), added


def _pair(piece: str, ranks: dict[tuple[str, str], int]) -> tuple[str, str] | None:
    """The two symbols that a piece is made of once all earlier merges were made; None when there are more."""
    symbols = list(piece)
    while len(symbols) > 1:
        pairs = [(ranks[pair], at) for at, pair in enumerate(pairwise(symbols)) if pair in ranks]
        if not pairs:
            break
        _, at = min(pairs)
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
    return (symbols[0], symbols[1]) if len(symbols) == 2 else None


def _unproduced(content: str, added: list[str], words: Counter[str]) -> set[str]:
    """Added tokens that no word's segmentation holds; letters are left out, because words yet unseen need them."""
    tokenizer, idle = BpeTokenizer.from_str(content), {token for token in added if len(token) > 1}
    for encoding in tokenizer.encode_batch(list(words)):
        idle.difference_update(encoding.tokens)
    return idle


def _made_of(content: str, added: list[str], idle: set[str]) -> set[str]:
    """Added tokens whose last merge takes an idle one."""
    merges = json.loads(content)["model"]["merges"]
    pairs = [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in merges]
    return {"".join(pair) for pair in pairs if set(pair) & idle} & set(added)


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
