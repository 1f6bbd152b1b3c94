"""Write a language's token and letters into a base's tokenizer file."""

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anyascii import anyascii
from tokenizers import Tokenizer as BpeTokenizer

from utils.errors import UserError
from utils.text.languages import code_of_token, language_token, plain_code


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


def add_letters(vocab: Path, language: str, letters: Iterable[str]) -> Extension:
    """A base's tokenizer with the language's token and those of the letters that it lacks.

    Raises:
        UserError: the file is not a tokenizer.
    """
    data = read_vocabulary(vocab)
    old = data["model"]["vocab"]
    added = [letter for letter in letters if letter not in old]
    content = write_vocabulary(data, language, added, [])
    pieces = old_pieces(vocab, content, old, [language_token(plain_code(language)), *added])
    return Extension(content=content, pieces=pieces, added=added)


def read_vocabulary(vocab: Path) -> dict[str, Any]:
    """What a tokenizer file holds.

    Raises:
        UserError: the file is not a tokenizer.
    """
    try:
        BpeTokenizer.from_file(str(vocab))
        data = json.loads(vocab.read_text(encoding="utf-8"))
        assert isinstance(data["model"]["vocab"], dict) and isinstance(data["model"]["merges"], list)
    except Exception as error:
        raise UserError(what=f"not a tokenizer file: {error}", where=str(vocab)) from error
    return dict(data)


def write_vocabulary(
    data: dict[str, Any], language: str, letters: list[str], pairs: Collection[tuple[str, str]]
) -> str:
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


def old_pieces(vocab: Path, content: str, old: dict[str, int], tokens: list[str]) -> dict[int, list[int]]:
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
