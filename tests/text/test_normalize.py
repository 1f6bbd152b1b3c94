"""Text rules: stock's own public cases, our tables, what has no rule is told, and rules that keep their promises."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from utils.errors import UserError
from utils.text.languages import plain_code
from utils.text.normalize import has_number_words, normalize

# The public cases of coqui-tts (TTS/tts/layers/xtts/tokenizer.py: test_expand_numbers, _abbreviations, _symbols), as
# the whole cleaner answers them. Source: coqui-tts 0.28, MPL-2.0.
STOCK_CASES = [
    ("In 12.5 seconds.", "in twelve point five seconds.", "en"),
    ("There were 50 soldiers.", "there were fifty soldiers.", "en"),
    ("This is a 1st test", "this is a first test", "en"),
    ("That will be $20 sir.", "that will be twenty dollars sir.", "en"),
    ("That will be 20€ sir.", "that will be twenty euro sir.", "en"),
    ("That will be 20.15€ sir.", "that will be twenty euro, fifteen cents sir.", "en"),
    ("That's 100,000.5.", "that's one hundred thousand point five.", "en"),
    ("En 12,5 secondes.", "en douze virgule cinq secondes.", "fr"),
    ("Il y avait 50 soldats.", "il y avait cinquante soldats.", "fr"),
    ("Ceci est un 1er test", "ceci est un premier test", "fr"),
    ("Cela vous fera $20 monsieur.", "cela vous fera vingt dollars monsieur.", "fr"),
    ("Ce sera 20€ monsieur.", "ce sera vingt euros monsieur.", "fr"),
    ("In 12,5 Sekunden.", "in zwölf komma fünf sekunden.", "de"),
    ("Es gab 50 Soldaten.", "es gab fünfzig soldaten.", "de"),
    ("Dies ist ein 1. Test", "dies ist ein erste test", "de"),
    ("En 12,5 segundos.", "en doce punto cinco segundos.", "es"),
    ("Había 50 soldados.", "había cincuenta soldados.", "es"),
    ("Em 12,5 segundos.", "em doze vírgula cinco segundos.", "pt"),
    ("W ciągu 12,5 sekund.", "w ciągu dwanaście przecinek pięć sekund.", "pl"),
    ("There was 50 żołnierzy.", "there was pięćdziesiąt żołnierzy.", "pl"),
    ("In 12,5 secondi.", "in dodici virgola cinque secondi.", "it"),
    ("Там было 50 солдат.", "там было пятьдесят солдат.", "ru"),
    ("Er waren 50 soldaten.", "er waren vijftig soldaten.", "nl"),
    ("50 asker vardı.", "elli asker vardı.", "tr"),
    ("Hello Mr. Smith.", "hello mister smith.", "en"),
    ("Hola Sr. Garcia.", "hola señor garcia.", "es"),
    ("Bonjour Mr. Dupond.", "bonjour monsieur dupond.", "fr"),
    ("I have 14% battery", "i have fourteen percent battery", "en"),
    ("Te veo @ la fiesta", "te veo arroba la fiesta", "es"),
    ("J'ai 14° de fièvre", "j'ai quatorze degrés de fièvre", "fr"),
    ("Die Rechnung beträgt £ 20", "die rechnung beträgt pfund zwanzig", "de"),
]


@pytest.mark.parametrize(("text", "expected", "language"), STOCK_CASES)
def test_public_cases_of_stock_pass_through(text: str, expected: str, language: str) -> None:
    assert normalize(text, language) == (expected, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("50 लोग", "पचास लोग"),
        ("1,25,000 लोग", "एक लाख पच्चीस हज़ार लोग"),
        ("₹20 दो", "बीस रुपये दो"),
        ("3.5 किलो", "तीन दशमलव पाँच किलो"),
        ("५वीं कक्षा", "पाँचवाँ कक्षा"),
        ("99%", "निन्यानवे प्रतिशत"),
    ],
)
def test_hindi_numbers_have_their_own_table(text: str, expected: str) -> None:
    import unicodedata

    assert normalize(text, "hi").text == unicodedata.normalize("NFC", expected)


def test_chinese_numbers_are_read() -> None:
    text = normalize("今天有50人。", "zh-cn").text
    assert "wu3shi2" in text and "50" not in text


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Mul on 23 koera", "fi", "mul on kaksikymmentäkolme koera"),
        ("Hinta 1.234,5", "fi", "hinta tuhat kaksisataakolmekymmentäneljä pilkku viisi"),
        ("У мене 25 котів", "uk", "у мене двадцять п'ять котів"),
        ("cafe\u0301 a\u200bb", "ro", "café ab"),
    ],
)
def test_other_languages_take_kept_number_words(text: str, language: str, expected: str) -> None:
    assert normalize(text, language) == (expected, ())


def test_what_has_no_rule_is_told_and_kept() -> None:
    result = normalize("Saa 12 na 50% 😀", "sw")
    assert result.text == "saa 12 na 50%"
    assert result.notes == (
        "left out, no sound: U+1F600",
        "no number words for sw: 12 stays digits",
        "no number words for sw: 50 stays digits",
        "no word for % in sw",
    )
    assert not has_number_words("sw") and has_number_words("fi") and has_number_words("am") and has_number_words("hi")


def test_a_rule_of_stock_that_fails_is_a_user_error() -> None:
    with pytest.raises(UserError, match="text rules cannot read"):
        normalize("a number of " + "9" * 400, "en")


@pytest.mark.parametrize(("written", "code"), [("am", "amh"), ("AMH", "amh"), ("zh-cn", "zh"), ("pt_BR", "pt")])
def test_codes_have_one_spelling(written: str, code: str) -> None:
    assert plain_code(written) == code


@pytest.mark.parametrize(
    "text",
    ["", " ", "\u200b\ufeff", "שלום hello", "a" * 1_000_000, "ሰላም Привет hello", "\x00\x01", "1" * 10_000, "🇪🇹👩‍👩‍👧"],
    ids=["empty", "blank", "invisible", "right to left", "one megabyte", "mixed", "control", "digits", "emoji"],
)
@pytest.mark.parametrize("language", ["amh", "fi", "sw", "xx"])
def test_bad_input_never_raises(text: str, language: str) -> None:
    assert isinstance(normalize(text, language).text, str)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.sampled_from(["amh", "fi", "sw"]))
def test_normalising_twice_changes_nothing(text: str, language: str) -> None:
    once = normalize(text, language).text
    assert normalize(once, language).text == once


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.characters(categories=["Ll", "Lo"]), max_size=40))
def test_no_letter_of_a_language_without_rules_is_lost(text: str) -> None:
    import unicodedata

    assert normalize(text, "sw").text == unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).lower())
