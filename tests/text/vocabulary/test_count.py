"""Words of a corpus are counted once, from where a cut came."""

from collections.abc import Callable
from pathlib import Path

import pytest

from utils.bases import extend as count_module
from utils.bases.extend import count_words


@pytest.fixture
def texts(tmp_path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(f"რა არის {number} ეს?" for number in range(57)), encoding="utf-8")
    return path


def test_words_are_counted_without_numbers(texts, tmp_path):
    assert count_words(texts, "ka", tmp_path) == {"რა": 57, "არის": 57, "ეს": 57}


def test_a_count_that_was_cut_goes_on(texts, tmp_path, monkeypatch):
    monkeypatch.setattr(count_module, "SAVE_EVERY", 10)
    read, seen = count_module.read_words, list[str]()

    def reader(most: int) -> Callable[[str, str], list[str]]:
        def read_and_note(text: str, language: str) -> list[str]:
            if len(seen) == most:
                raise KeyboardInterrupt
            seen.append(text)
            return read(text, language)

        return read_and_note

    monkeypatch.setattr(count_module, "read_words", reader(35))
    with pytest.raises(KeyboardInterrupt):
        count_words(texts, "ka", tmp_path)
    seen.clear()
    monkeypatch.setattr(count_module, "read_words", reader(1_000))
    assert count_words(texts, "ka", tmp_path)["რა"] == 57
    assert len(seen) == 57 - 30, "what was counted is not counted again"
    seen.clear()
    assert count_words(texts, "ka", tmp_path)["რა"] == 57 and not seen
    count_words(texts, "sw", tmp_path)
    assert len(seen) == 57, "another language has other words"


def test_no_more_texts_than_the_limit(texts, tmp_path, monkeypatch):
    monkeypatch.setattr(count_module, "MOST_TEXTS", 20)
    assert count_words(texts, "ka", tmp_path)["რა"] == 20
