"""Tokens are stock's; what the model cannot read is reported, never dropped."""

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from itertools import pairwise

import pytest

from utils.bases.find import find_base
from utils.errors import UserError
from utils.text.tokenizer import MAX_BYTES, Tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return find_base("tiny").tokenizer()


def test_a_vocabulary_that_fills_the_memory_is_refused(tokenizer, tmp_path):
    vocab = json.loads(tokenizer.path.read_text(encoding="utf-8"))
    vocab["model"]["vocab"]["huge"] = 2**31
    (tmp_path / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    with pytest.raises(UserError, match=r"tokens up to number 2,147,483,648, and at most 1,000,000"):
        Tokenizer(tmp_path / "vocab.json")
    os.truncate(tmp_path / "vocab.json", MAX_BYTES + 1)
    with pytest.raises(UserError, match=r"104,857,601 bytes, and at most"):
        Tokenizer(tmp_path / "vocab.json")


def test_merges_and_spaces_round_trip(tokenizer):
    ids = tokenizer.encode("The thing, there.", "en")
    assert tokenizer.decode(ids) == "[en]the thing, there."
    assert len(ids) < len("the thing, there.") + 1, "merges were not used"


@pytest.mark.parametrize(
    ("text", "words"),
    [("One two three.", ["one", "two", "three."]), ("It's Mr. Smith, now!", ["it's", "mister", "smith,", "now!"])],
)
def test_words_begin_with_these_tokens(tokenizer, text, words):
    ids, starts = tokenizer.encode(text, "en"), tokenizer.word_starts(text, "en")
    assert starts is not None and (starts[0], starts[-1]) == (1, len(ids))
    # A word's tokens are those it has alone, and a space behind them.
    alone = [tokenizer.encode_normalized(word, "en")[1:] for word in words]
    parts = [ids[begin:end] for begin, end in pairwise(starts)]
    assert [part[: len(one)] for part, one in zip(parts, alone, strict=True)] == alone
    assert [len(part) - len(one) for part, one in zip(parts, alone, strict=True)] == [1] * (len(words) - 1) + [0]


def test_words_that_normalising_multiplies_have_no_known_beginnings(tokenizer):
    assert tokenizer.word_starts("In 1987 it rained.", "en") is None


def test_unknown_characters_are_listed_once_in_order(tokenizer):
    assert tokenizer.unknown_characters("ሰላም, hello ሰ ☃!", "en") == ["ሰ", "ላ", "ም", "☃"]
    assert tokenizer.unknown_characters("Plain words: fine.", "en") == []


def test_region_is_dropped_from_a_language_code(tokenizer):
    assert tokenizer.check_language("de-at") == "de"
    assert tokenizer.check_language(" EN-us ") == "en"


def _installed(*names: str) -> Callable[[str], ModuleSpec | None]:
    return lambda name: ModuleSpec(name, None) if name in names else None


@pytest.mark.parametrize(
    ("language", "code", "packages", "install"),
    [
        ("zh-cn", "zh", ("pypinyin",), "pip install pypinyin"),
        ("ja", "ja", ("cutlet", "unidic_lite"), "pip install cutlet unidic-lite"),
    ],
)
def test_a_language_whose_rules_need_a_package_is_accepted_only_with_it(
    tokenizer,
    monkeypatch,
    language,
    code,
    packages,
    install,
):
    monkeypatch.setattr(importlib.util, "find_spec", _installed())
    for read in (tokenizer.check_language, lambda code: tokenizer.encode("Hi", code)):
        with pytest.raises(UserError, match=f"the language '{code}' needs") as caught:
            read(language)
        assert install in caught.value.fix
    loaded = set(sys.modules)
    monkeypatch.setattr(importlib.util, "find_spec", _installed(*packages))
    assert tokenizer.check_language(language) == code
    assert not (set(sys.modules) - loaded) & set(packages), "looking for a package loaded it"


def test_japanese_takes_either_dictionary(tokenizer, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", _installed("cutlet", "unidic"))
    assert tokenizer.check_language("ja") == "ja"


@pytest.mark.parametrize("language", ["amh", "xx", "", "english"])
def test_a_language_the_base_cannot_read_is_refused(tokenizer, language):
    with pytest.raises(UserError, match="cannot read the language") as error:
        tokenizer.check_language(language)
    assert "en, es, fr" in error.value.fix


@pytest.mark.parametrize("content", ["", "not json", '{"model": 1}'])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path, content):
    file = tmp_path / "vocab.json"
    file.write_text(content)
    with pytest.raises(UserError, match="not a tokenizer"):
        Tokenizer(file)


def test_a_missing_vocabulary_is_named(tmp_path):
    with pytest.raises(UserError, match=r"no vocab\.json"):
        Tokenizer(tmp_path / "vocab.json")
