"""Near misses, and the synthesizer that says them."""

import pytest

from utils.errors import UserError
from utils.evaluation.features import RATE
from utils.evaluation.reference import find_voice, near_misses, say

OTHERS = ["Thank you very much.", "The library opens at eight.", "He usually forgets his gloves, even in January."]


@pytest.mark.parametrize(
    "text", ["Come in.", "Where is the nearest station?", "One two three four five six seven eight."]
)
def test_a_near_miss_has_a_fifth_of_its_words_swapped(text):
    variants = near_misses(text, [*OTHERS, text])
    assert len(set(variants)) == 5
    for variant in variants:
        pairs = list(zip(text.split(), variant.split(), strict=True))
        assert sum(old != new for old, new in pairs) == max(1, round(0.2 * len(pairs)))
        assert variant[-1] == text[-1]
    assert near_misses(text, [*OTHERS, text]) == variants


@pytest.mark.parametrize(
    ("text", "others", "num_swapped", "kept"),
    [
        ("你好,很高兴认识你。", ["我们明天去学校。", "谢谢,再见。"], 2, ",。"),
        ("ሰላም ለዓለም፣ እንዴት ነህ።", ["ቡና እወዳለሁ።", "ዛሬ ገበያ ሄደ።"], 1, "፣።"),
        ("«Où est la gare ?»", ["Merci beaucoup.", "Le chat dort."], 1, "«?»"),
        ("नमस्ते, आप कैसे हैं?", ["यह मेरा घर है।"], 1, ",?"),
    ],
)
def test_variants_of_any_script_keep_their_punctuation(text, others, num_swapped, kept):
    variants = near_misses(text, others)
    assert len(set(variants)) == 5
    for variant in variants:
        assert [mark for mark in variant if mark in kept] == [mark for mark in text if mark in kept]
        pieces = list(text), list(variant)
        if " " in text:
            pieces = text.split(), variant.split()
        assert len(pieces[0]) == len(pieces[1])
        assert sum(old != new for old, new in zip(*pieces, strict=True)) == num_swapped


def test_amharic_words_are_also_divided_by_their_own_mark():
    for variant in near_misses("ሰላም፡ለዓለም፡እንዴት፡ነህ።", ["ቡና እወዳለሁ።"]):
        assert len(variant.split("፡")) == 4 and variant.endswith("።")


def test_clauses_are_no_words():
    assert near_misses("สวัสดีครับ ผมชื่อสมชาย", ["ขอบคุณมาก ลาก่อน"]) == []


def test_no_other_words_no_variants():
    assert near_misses("Come in.", ["In, come!"]) == []


def test_an_absent_synthesiser_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="espeak-ng is not installed"):
        find_voice("en")
    with pytest.raises(UserError, match="espeak-ng is not installed"):
        say("hello", "en-us")


@pytest.mark.programs("espeak-ng")
def test_the_synthesiser_speaks_what_begins_like_an_option():
    wav = say("-h is a letter", "en-us+f2", pitch=55)
    assert 0.5 * RATE < wav.shape[1] < 4 * RATE
    assert wav.abs().max() > 0.05


@pytest.mark.programs("espeak-ng")
def test_a_voice_that_is_not_there_is_named():
    # espeak-ng takes no-such-voice for a voice of Norwegian.
    with pytest.raises(UserError, match="'xx-none'"):
        find_voice("en", "xx-none")
    assert find_voice("zh-cn") == "cmn"
