"""The transcript check counts letters that differ, and nothing that recognizers and people write differently."""

import pytest

from utils.text.error_rate import character_error_rate, letters


@pytest.mark.parametrize(
    ("transcript", "recognized", "expected"),
    [
        ("Good morning, everyone!", "good morning everyone", 0.0),
        ("Straße", "STRASSE", 0.0),
        ("cafe\u0301", "café", 0.0),
        ("abcd", "abxd", 0.25),
        ("abcd", "", 1.0),
        ("ab", "abcdef", 2.0),
        ("ሰላም ነው።", "ሰላም ነው", 0.0),
        ("你好。", "你好", 0.0),
    ],
)
def test_the_rate_is_the_share_of_letters_that_differ(transcript, recognized, expected):
    assert character_error_rate(transcript, recognized) == pytest.approx(expected)


def test_vowel_signs_are_letters_too():
    assert letters("नमस्ते!") == "नमस्ते"
