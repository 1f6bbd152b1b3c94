"""Dates, times, decimal signs and counted words of the 17 languages."""

import json
from pathlib import Path

import pytest

from utils.text.normalize import normalize

DATES = json.loads(Path(__file__).with_name("readings.json").read_text(encoding="utf-8"))["dates"]


@pytest.mark.parametrize("code", DATES)
def test_a_date_is_read_in_the_order_and_words_of_the_language(code):
    day_first = "5/1/2024 at 3:05 pm" if code == "en" else "1.5.2024"
    for text in (day_first, "2024-05-01 at 3:05 pm" if code == "en" else "2024-05-01"):
        assert normalize(text, code) == (DATES[code], ())


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("17/5/2024", "en", "may seventeenth, two thousand and twenty-four"),
        ("22.3.1998", "pl", "dwudziestego drugiego marca tysiąc dziewięćset dziewięćdziesiąt osiem"),
        ("17.5.2024", "hu", "kétezer-huszonnégy május tizenhetedike"),
        ("3:00", "en", "three o'clock"),
        ("3:00 pm", "en", "three pm"),
        ("14:00", "en", "fourteen hundred"),
        ("1:05", "de", "ein uhr fünf"),
        ("1:15", "fr", "une heure quinze"),
        ("21:22", "ru", "двадцать один час двадцать две минуты"),
        ("10:05", "zh-cn", "shi2dian3ling2wu3fen1"),
        ("1.234,5", "en", "one thousand, two hundred and thirty-four point five"),
        ("1,234.5", "de", "eintausendzweihundertvierunddreißig komma fünf"),
        ("0.125", "fr", "zéro virgule un deux cinq"),
        ("12,345,678", "ko", "cheon-ibaegsamsibsaman ocheon-yugbaegchilsibpal"),
        ("1,234", "zh-cn", "yi1qian1liang3bai3san1shi2si4"),
        ("3,5", "hi", "तीन दशमलव पाँच"),
        ("₩2, 22 ₺", "ru", "две воны, двадцать две лиры"),
        (
            "1 kWh, 22 kWh, 21 ₺, 1,02 kWh",
            "pl",
            "jedna kilowatogodzina, dwadzieścia dwie kilowatogodziny, dwadzieścia jeden lir, "
            "jeden przecinek zero dwa kilowatogodzin",
        ),
        ("1 m", "es", "un metro"),
        ("5 l, 8 GB, 3 m²", "en", "five liters, eight gigabytes, three m²"),
    ],
)
def test_times_decimal_signs_and_counted_words(text, code, expected):
    assert normalize(text, code).text == expected


@pytest.mark.parametrize("text", ["31.13.2024", "25:10", "1.2.3.4", "12:30:45"])
def test_what_is_no_date_or_time_is_not_read_as_one(text):
    read = normalize(text, "en").text
    assert "february" not in read and "o'clock" not in read and "hundred" not in read


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", ["1. ", "1.", "1,234 "])
@pytest.mark.parametrize("code", ["en", "de"])
def test_many_numbers_take_no_more_time_than_their_length(text, code):
    assert normalize(text * 2_000, code).text
