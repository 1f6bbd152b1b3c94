"""Strings in the 17 languages that stock coqui-tts has cleaners for: what people write in transcripts."""

import json
from pathlib import Path

TABLES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
"""Sentences, abbreviations and ordinals by language; and `differences`, by reason and language: what we read otherwise
than stock does."""
WRITTEN = (
    # numbers
    *("7", "007", "2024", "1,234", "1.234", "1,234.56", "1.234,56", "12.5", "12,5", "0.05", "-3", "1 000 000"),
    # money, and what stands beside numbers
    *("$20", "20$", "20.15€", "€5", "£3.50", "50%", "% 50", "20°", "#1", "@", "&", "3 + 4 = 7", "¥500"),
    # case, quotes, punctuation, scripts, spaces
    *("ABC Def", "İI", "'x'", '"x"', "“x” ‘y’", "«x»", "„x“", "a... b…", "a – b — c", "(a) [b] / c"),
    *("a;b:c!d?", "hello Привет", "naïve café", "a\u00a0 b\n\tc"),
)
"""Written behind a word of each language."""
_WORDS = "The Mañana Où Übung PERCHÉ Ação Zażółć İyi Съешь IJsland Příliš كَيْفَ Árvíztűrő 오늘 今天 駅は आज"
WORDS = dict(zip(TABLES["sentences"], _WORDS.split(), strict=True))
ALONE = (
    ("  padded  ", "en"),
    ("١٢٣", "ar"),
    ("١٢٫٥", "ar"),
    ("12٫5", "ar"),
    ("١٬٢٣٤٬٥٦٧", "ar"),
    ("٥٠٪", "ar"),
    ("٪", "ar"),
    ("۵۰ ۱۲", "ar"),
    ("५० लोग", "hi"),
    ("50％", "ko"),
    ("R＆B", "ko"),
    ("50％", "zh"),
    ("R＆B", "ja"),
    ("cafe\u0301", "fr"),
    ("I\u0307stanbul", "tr"),
    ("in\u00advisible\u200b", "en"),
    ("ａ１", "ko"),
    ("17.5.2024", "de"),
    ("2024-05-17", "en"),
    ("3:45", "en"),
    ("3:45", "ja"),
)


def all_strings() -> list[tuple[str, str, str]]:
    """(language, written, whole text); no two are alike."""
    beside = [(code, written, f"{word} {written}") for code, word in WORDS.items() for written in WRITTEN]
    tables = [TABLES[name].items() for name in ("sentences", "abbreviations", "ordinals")]
    own = [(code, text, text) for table in tables for code, text in table]
    return [*beside, *own, *((code, text, text) for text, code in ALONE)]
