"""Text rules: stock's own public cases, our tables, what has no rule is reported, and rules keep their promises."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.text.alphabets import ALPHABETS
from utils.bases.find import find_base
from utils.errors import UserError
from utils.text.amharic.sounds import to_latin_text
from utils.text.languages import plain_code
from utils.text.normalize import normalize
from utils.text.tokenizer import UNKNOWN


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("50 लोग", "पचास लोग"),
        ("1,25,000 लोग", "एक लाख पच्चीस हज़ार लोग"),
        ("₹20 दो", "बीस रुपये दो"),
        ("3.5 किलो", "तीन दशमलव पाँच किलो"),
        ("५वीं कक्षा", "पाँचवाँ कक्षा"),
        ("99%", "निन्यानवे प्रतिशत"),
        ("9,1000 लोग", "नौ,एक हज़ार लोग"),
    ],
)
def test_hindi_numbers_have_their_own_table(text, expected):
    assert normalize(text, "hi").text == unicodedata.normalize("NFC", expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024年5月17日、3時45分。", "nisen nijuu yon nen go gatsu juu nanaka, san ji yonjuu go fun."),
        ("1人と20歳", "hitori to hatachi"),
        ("50%", "gojuu percent"),
        ("¥1,500 & 3.05", "sen gohyaku en and san ten zero go"),
        ("090", "zero kyuu zero"),
        ("12345678901234567", "ichi ni san yon go roku nana hachi kyuu zero ichi ni san yon go roku nana"),
    ],
)
def test_japanese_numbers_are_read_as_their_counters_want(text, expected):
    assert normalize(text, "ja") == (expected, ())


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Mul on 23 koera", "fi", "mul on kaksikymmentäkolme koera"),
        ("Hinta 1.234,5", "fi", "hinta tuhat kaksisataakolmekymmentäneljä pilkku viisi"),
        ("У мене 25 котів", "uk", "у мене двадцять п'ять котів"),
        ("cafe\u0301 a\u200bb", "ro", "café ab"),
        ("می\u200cخواهم", "fa", "می\u200cخواهم"),
        ("İSTANBUL IŞIQ I\u0307l", "az", "istanbul ışıq il"),
        ("İĞDIR", "crh", "iğdır"),
        ("۰٫۱۲۵ ۱٬۲۳۴٫۵", "fa", "صفر ممیز یک دو پنج هزار و دویست و سی و چهار ممیز پنج"),
        ("0,125 1,234", "fi", "nolla pilkku yksi kaksi viisi tuhat kaksisataakolmekymmentäneljä"),
        ("٫٬", "ur", ".,"),
    ],
)
def test_other_languages_take_kept_number_words(text, language, expected):
    assert normalize(text, language) == (expected, ())


def test_a_picture_leaves_no_joiner_behind():
    assert normalize("gari 👩\u200d👩\u200d👧 jipya", "sw").text == "gari jipya"


def test_what_has_no_rule_is_told_and_kept():
    result = normalize("Saa 12 na 50% 😀", "sw")
    assert result.text == "saa 12 na 50%"
    assert result.notes == (
        "dropped, not spoken: U+1F600",
        "no number words for sw: 12 stays digits",
        "no number words for sw: 50 stays digits",
        "no word for % in sw",
    )


def test_a_number_that_a_rule_of_stock_fails_on_is_read_digit_by_digit():
    found = normalize("a number of " + "9" * 400, "en")
    assert found.text == "a number of" + " nine" * 400
    assert found.notes == ("no rule for a number in en: it is read without its ordinal, or digit by digit",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-05-17", "2024 05 17"),
        ("tarehe 17/5/2024.", "tarehe 17 5 2024."),
        ("saa 3:45", "saa 3 45"),
        ("1.5 na 3.14", "1.5 na 3.14"),
    ],
)
def test_dates_and_times_are_read_by_their_numbers_and_told(text, expected):
    result = normalize(text, "sw")
    assert result.text == expected
    assert any("date or time" in note for note in result.notes) == (text != "1.5 na 3.14")


@pytest.mark.parametrize(
    ("text", "language", "expected", "note"),
    [
        ("Am 17.15.2024 da", "de", "am siebzehn fünfzehn zweitausendvierundzwanzig da", "17.15.2024"),
        ("at 3:45:10 now", "en", "at three forty-five ten now", "3:45:10"),
    ],
)
def test_what_stock_has_no_rule_for_is_told_as_well(text, language, expected, note):
    result = normalize(text, language)
    assert result.text == expected
    assert len(result.notes) == 1 and note in result.notes[0]


def test_digits_of_other_scripts_are_numbers_to_stocks_rules_too():
    assert normalize("٥٠", "ar") == normalize("50", "ar") == ("خمسون", ())


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("$20 і 50%", "uk", "двадцять доларів і п'ятдесят%"),
        (
            "50 % ja 20,15€, -5",
            "fi",
            "viisikymmentä prosenttia ja kaksikymmentä euroa ja viisitoista senttiä, miinus viisi",
        ),
        ("$2.50 £5.00", "lt", "du doleriai, penkiasdešimt centų penki svarai sterlingų"),
        ("۱۲٫۵٪ -۷ ۰٫۰۵", "fa", "دوازده ممیز پنج درصد منفی هفت صفر ممیز صفر پنج"),
        ("2.5 -3 50%", "vi", "hai phẩy năm âm ba năm mươi phần trăm"),
        ("25 қазан", "kk", "жиырма бес қазан"),
        ("၁၂ ကျောင်း။", "my", "12 ကျောင်း."),
        ("covid-19, 10-15", "fi", "covid-yhdeksäntoista, kymmenen-viisitoista"),
    ],
)
def test_money_percent_and_signs_where_a_kept_library_or_a_table_has_words(text, language, expected):
    assert normalize(text, language).text == expected
    assert normalize(expected, language).text == expected


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Ինչպե՞ս եք։ Բարև ձեզ, «ընկեր»։ Ա՜խ", "hy", "ինչպես եք? բարև ձեզ, ընկեր. ախ!"),
        ("Γειά σου· τι κάνεις;", "el", "γειά σου, τι κάνεις?"),
        ("ሰላም ዓለም። ከመይ ኣለኻ፧", "ti", "ሰላም ዓለም. ከመይ ኣለኻ?"),
        ("یہ کتاب ہے۔", "ur", "یہ کتاب ہے."),
        ("བཀྲ་ཤིས།", "bo", "བཀྲ ཤིས."),
        ("П’ять, «добре»!", "uk", "п'ять, добре!"),
    ],
)
def test_punctuation_of_every_script_becomes_marks_that_bases_read(text, language, expected):
    assert normalize(text, language) == (expected, ())
    assert normalize(expected, language).text == expected


@given(st.data())
def test_stocks_rules_lose_no_letter_and_change_nothing_the_second_time(data):
    """Three languages are romanised; Amharic has letters of one sound in one spelling: tests of their own."""
    language = data.draw(st.sampled_from(sorted(set(ALPHABETS) - {"ja", "ko", "zh", "amh"})))
    text = data.draw(st.text(alphabet=ALPHABETS[language] + "   ,?!-'", max_size=40))
    once = normalize(text, language)
    assert [char for char in once.text if char.isalpha()] == [char for char in text.lower() if char.isalpha()]
    numbers = data.draw(st.text(alphabet=ALPHABETS[language] + "0123456789 .,!?%&$'-", max_size=24))
    try:
        spoken = normalize(numbers, language).text
    except UserError:
        return  # stock cannot read it, and says so
    assert normalize(spoken, language).text == spoken


@given(st.data())
def test_nothing_outside_the_vocabulary_is_ever_written(data):
    """Of letters, digits and signs that a language has, only tokens come: no number or symbol brings a letter in."""
    language = data.draw(st.sampled_from(sorted(ALPHABETS)))
    text = data.draw(st.text(alphabet=ALPHABETS[language] + "0123456789 .,!?%&$'-", max_size=24))
    try:
        normalized = normalize(text, language).text
    except UserError:
        return  # stock cannot read it, and says so
    if language == "amh":
        normalized = to_latin_text(normalized)
    assert UNKNOWN not in find_base("tiny").tokenizer().segments(normalized), (text, normalized)


@pytest.mark.parametrize(("written", "code"), [("am", "amh"), ("AMH", "amh"), ("zh-cn", "zh"), ("pt_BR", "pt")])
def test_codes_have_one_spelling(written, code):
    assert plain_code(written) == code


@pytest.mark.parametrize(
    "text",
    ["", " ", "\u200b\ufeff", "שלום hello", "a" * 300_000, "ሰላም Привет hello", "\x00\x01", "1" * 10_000, "🇪🇹👩‍👩‍👧"],
    ids=["empty", "blank", "invisible", "right to left", "very long", "mixed", "control", "digits", "emoji"],
)
@pytest.mark.parametrize("language", ["amh", "fi", "sw"])
def test_bad_input_never_raises(text, language):
    assert isinstance(normalize(text, language).text, str)


@given(st.text(max_size=60), st.sampled_from(["amh", "fi", "sw"]))
def test_normalising_twice_changes_nothing(text, language):
    once = normalize(text, language).text
    assert normalize(once, language).text == once


@given(st.text(alphabet=st.characters(categories=["Ll", "Lo"]), max_size=40))
def test_no_letter_of_a_language_without_rules_is_lost(text):
    assert normalize(text, "sw").text == unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).lower())
