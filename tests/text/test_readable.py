"""Speech reads what it can of any text and names the rest; training drops no clip for a mark."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from utils.bases.find import find_base
from utils.text import normalize as normalize_module
from utils.text.normalize import normalize
from utils.text.readable import named
from utils.text.tokenizer import Tokenizer

READINGS = json.loads(Path(__file__).with_name("readings.json").read_text(encoding="utf-8"))
"""Amounts and shorthand by language, with how they are read."""
LANGUAGES = ("en", "es", "fr", "de", "it", "pt", "pl", "tr", "ru", "nl", "cs", "ar", "zh-cn", "hu", "ko", "ja", "hi")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return find_base("starter").tokenizer()


TEXTS = {
    "Three tips:\n\n1. **Check** it.\n2. *Oil* it.\n   - twice\n\n---\n": "Three tips: 1. Check it. 2. Oil it. twice",
    "Run:\n```python\nprint('hello')\n```\nThen wait.": "Run: print('hello') Then wait.",
    "See [the manual](https://example.com/a_b?x=1#top).": "See the manual.",
    "Water boils at 100 degrees [1][2].": "Water boils at 100 degrees.",
    "<think>What shall I say</think>Good evening.": "Good evening.",
    "Line one<br>line two &amp; three.": "Line one line two & three.",
    "Great job \U0001f44d, see you!": "Great job , see you!",
    "\u200bHello\u200b there\ufeff.": "Hello there.",
    "\U0001d4d7\U0001d4ee\U0001d4f5\U0001d4f5\U0001d4f8 there.": "Hello there.",
    "\u00bd cup": "1/2 cup",
    "№ 5 of Hello™": "№ 5 of HelloTM",
    "\uff28\uff45\uff4c\uff4c\uff4f": "Hello",
}


@pytest.mark.parametrize("text", TEXTS)
def test_markup_and_pictures_are_left_out_of_speech(tokenizer, text):
    found = tokenizer.readable(text, "en").text
    assert " ".join(found.replace("\u200b", "").replace("\ufeff", "").split()) == TEXTS[text]
    assert tokenizer.unknown_characters(found, "en") == []


def test_what_is_left_out_is_named(tokenizer):
    assert tokenizer.readable("The word 你好 means hello.", "en") == ("The word means hello.", ("你", "好"))
    found = tokenizer.readable("**See** [it](https://a.b) [1]\u200b, snake_case is 5*3*2<br>long.", "en")
    assert found.notes == ("[", "](https://a.b)", "[1]", "<br>", "**", "\u200b", "*")
    assert named(("**", *"\u200babcdefghijklmnopqrstuv")) == "** U+200B a b c d e f g h i j k l m n o p q r and 4 more"
    assert tokenizer.normalize(tokenizer.readable("Wait。Go，on！ ※", "en").text, "en") == "wait.go,on!"
    assert tokenizer.readable("Wait。Go，on！ ※ 5 %", "en").notes == ("※",)
    assert tokenizer.readable("\U0001f600\u2764", "en").notes == ("\U0001f600", "\u2764")
    assert not any(map(str.isalnum, tokenizer.readable("Привет!", "en").text))


@pytest.mark.parametrize(
    "text",
    [
        "“Good morning, everyone!”",
        "The train — to Edinburgh — leaves…",
        "‘No,’ he said, “I haven’t.”",
        "to – the «beach»",
    ],
)
def test_training_reads_typographic_marks(tokenizer, text):
    assert tokenizer.unknown_characters(text, "en") == []
    assert "[UNK]" not in tokenizer.segments(tokenizer.normalize(text, "en"))


def test_training_still_drops_a_clip_for_a_letter(tokenizer):
    assert tokenizer.unknown_characters("“ß”", "en") == ["ß"]


@given(st.text(max_size=60))
def test_any_text_can_be_spoken_or_has_nothing_to_speak(tokenizer, text):
    shown, unread = tokenizer.readable(text, "en")
    assert tokenizer.unknown_characters(shown, "en") == []
    # Nothing is silent without a word.
    if any(map(str.isalpha, text)) and not any(map(str.isalnum, shown)):
        assert unread


@pytest.mark.parametrize("code", LANGUAGES)
@pytest.mark.parametrize("mark", [".", "!", "?", ",", ". b"])
def test_a_number_before_any_mark_is_read_in_every_language(code, mark):
    for number in ("8", "1998", "0", "-8", "3,5", "1000000", "99999999999999999999"):
        read = normalize(f"a {number}{mark}", code).text
        # Pinyin writes tones as digits.
        assert code == "zh-cn" or not any(map(str.isdecimal, read)), read


@pytest.mark.parametrize("code", LANGUAGES)
def test_money_is_read_alike_with_and_without_a_space(code):
    for sign in "€$£":
        for space in (" ", "\u00a0", "\u202f"):
            assert normalize(f"5{space}{sign}", code).text == normalize(f"5{sign}", code).text
            assert normalize(f"{sign}{space}5", code).text == normalize(f"{sign}5", code).text


@pytest.mark.parametrize(
    ("kind", "code"), [(kind, code) for kind in ("amounts", "shorthand") for code in READINGS[kind]]
)
def test_amounts_and_shorthand_are_read_in_the_words_of_the_language(kind, code):
    rows = READINGS[kind][code]
    assert {text: normalize(text, code).text for text in rows} == rows


@pytest.mark.parametrize("unit", ["h", "min", "mg", "ml", "MB", "GB", "Hz", "kWh"])
def test_no_unit_stays_a_letter_in_any_language(unit):
    read = {code: normalize(f"5 {unit}", code).text for code in LANGUAGES}
    assert {code: text for code, text in read.items() if unit.lower() in text.split()} == {}
    assert len(set(read.values())) > 12


def test_a_long_chinese_text_is_read_in_parts_as_it_is_whole(monkeypatch):
    """Stock's rules take the square of a text's length: 17 s for 19,200 letters, 0.3 s in parts."""
    parts: list[int] = []
    clean = normalize_module._stock_cleaner().preprocess_text
    counted = SimpleNamespace(preprocess_text=lambda text, code: parts.append(len(text)) or clean(text, code))
    monkeypatch.setattr(normalize_module, "_stock_cleaner", lambda: counted)
    text = "今天是星期一，我有3个苹果和25块钱。他说hello world，然后走了！电话13812345678。" * 30
    in_parts = normalize(text, "zh").text
    assert max(parts) <= 1_000 and len(parts) > 1
    monkeypatch.setattr(normalize_module, "_WHOLE", len(text))
    assert in_parts == normalize(text, "zh").text
    monkeypatch.setattr(normalize_module, "_WHOLE", 400)
    parts.clear()
    normalize("1" * 3_000, "zh")
    assert max(parts) <= 1_000


NUMBERS = (
    *("8.", "1998.", "€ 5", "5 €", "$5", "27,50 €", "3,5", "1\u00a0234", "50 %", "10:30", "17.5.2024", "20 km/h"),
)


def test_the_table_of_numbers_in_the_docs_is_what_is_read():
    rows = ["| | " + " | ".join(text.replace("\u00a0", "&nbsp;") for text in NUMBERS) + " |"]
    rows.append("| --- " * (len(NUMBERS) + 1) + "|")
    for code in LANGUAGES:
        rows.append(f"| {code} | " + " | ".join(normalize(text, code).text for text in NUMBERS) + " |")
    page = (Path(__file__).parents[2] / "docs" / "languages.md").read_text(encoding="utf-8")
    assert "\n".join(rows) in page, "\n".join(rows)
