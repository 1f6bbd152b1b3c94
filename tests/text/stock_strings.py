"""Strings in the 17 languages that stock coqui-tts has cleaners for: what people write in transcripts."""

SENTENCES = {
    "en": "The QUICK Brown Fox's den, isn't IT?",
    "es": "¿Mañana ÑANDÚ, Pingüino? ¡Árbol!",
    "fr": "Où ÊTES-vous, Œuvre d'Été ?",
    "de": "Übung macht den MEISTER, Straße GROẞ und groß.",
    "it": "PERCHÉ l'Albero È così?",
    "pt": "Ação, CORAÇÃO e Avô à mão.",
    "pl": "Zażółć GĘŚLĄ Jaźń, Łódź!",
    "tr": "İstanbul'da IŞIK, Iğdır'da DİYARBAKIR; Öğle ÜZÜMÜ ve Çığ Şiş ÖĞÜN.",
    "ru": "Съешь ЕЩЁ этих Мягких булок, ЙОД!",
    "nl": "IJsland en De Heer's Één ZEEËN.",
    "cs": "Příliš ŽLUŤOUČKÝ Kůň úpěl ďábelské Ódy.",
    "ar": "كَيْفَ حالُكَ اليوم؟ أنا بخير، شكراً.",
    "hu": "Árvíztűrő TÜKÖRFÚRÓGÉP, Őz és Űr.",
    "ko": "오늘 날씨가 정말 좋네요, KBS 뉴스입니다!",
    "zh": "今天天气很好，我们去公园。NBA比赛！",
    "ja": "今日はNHKニュースを見ました。「東京タワー」です！",
    "hi": "आज मौसम बहुत अच्छा है। BBC हिन्दी, क्या हाल है?",
}
ABBREVIATIONS = {
    "en": "Mrs. Mr. Dr. St. Co. Jr. Maj. Gen. Drs. Rev. Lt. Hon. Sgt. Capt. Esq. Ltd. Col. Ft.",
    "es": "Sra. Sr. Dr. Dra. St. Co. Jr. Ltd.",
    "fr": "Mme. Mr. Dr. St. Co. Jr. Ltd.",
    "de": "Fr. Dr. St. Co. Jr.",
    "it": "Sig. Dr. St. Co. Jr. Ltd.",
    "pt": "Sra. Sr. Dr. Dra. St. Co. Jr. Ltd.",
    "pl": "P. M. Dr. Sw. Jr.",
    "tr": "B. Byk. Dr. İng.",
    "ru": "Г-жа Г-н Д-р",
    "nl": "Dhr. Mevr. Dr. Jhr.",
    "cs": "Dr. Ing. P.",
    "hu": "Dr. B. Nőv.",
}
ORDINALS = {
    "en": "1st 2nd 3rd 21ST",
    "es": "1º 2ª 1er 3os",
    "fr": "1er 2e 1re 3ème",
    "de": "1. Mai, der 3. Tag",
    "it": "1° 2ª 3o",
    "pt": "1º 2ª 3os",
    "pl": "1º 2nd",
    "tr": "1. 2nci 3üncü",
    "ru": "1-й 2-я 5-го",
    "nl": "1ste 2de 3e",
    "cs": "1. května",
    "ar": "3ون 5ث",
    "hu": "1. 3adik 5ödik",
    "ko": "1번째 2차",
    "hi": "1st 2ND",
}
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
WORDS = dict(zip(SENTENCES, _WORDS.split(), strict=True))
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


CAPITALS = "number words of num2words come with capitals, which no base has letters for"
JAPANESE = "stock leaves digits and signs, for which XTTS v2 has no tokens or no sound"
HINDI = "stock fails on every digit: num2words has no Hindi"
ARABIC = "stock leaves the digits, separators and signs of Arabic scripts, and a clip would be left out for them"
WIDE = "stock knows wide digits and signs in Chinese only"
COMPOSED = "letters are composed before stock's rules, which know the composed ones"
INVISIBLE = "what is never heard is no reason to leave a clip out"
RULELESS = "a rule that raises is replaced by a plain number"
DATES = "dates and times are read number by number, as no decimals and without a colon's pause"
DIFFERENCES: dict[str, dict[tuple[str, str], str]] = {
    CAPITALS: {
        ("de", "1,234"): "übung eins komma zwei drei vier",
        ("de", "1,234.56"): "übung eins komma zwei drei vier.sechsundfünfzig",
        ("de", "1.234,56"): "übung eintausendzweihundertvierunddreißig komma fünf sechs",
        ("de", "12.5"): "übung zwölf komma fünf",
        ("de", "12,5"): "übung zwölf komma fünf",
        ("de", "0.05"): "übung null komma null fünf",
        ("de", "$20"): "übung zwanzig dollar",
        ("de", "20$"): "übung zwanzig dollar",
        ("de", "20.15€"): "übung zwanzig euro und fünfzehn cent",
        ("de", "€5"): "übung fünf euro",
        ("de", "£3.50"): "übung drei pfund und fünfzig pence",
    },
    JAPANESE: {
        ("ja", "7"): "eki wa nana",
        ("ja", "007"): "eki wa zero zero nana",
        ("ja", "2024"): "eki wa nisen nijuu yon",
        ("ja", "1,234"): "eki wa sen nihyaku sanjuu yon",
        ("ja", "1.234"): "eki wa ichi ten ni san yon",
        ("ja", "1,234.56"): "eki wa sen nihyaku sanjuu yon ten goroku",
        ("ja", "1.234,56"): "eki wa ichi ten ni san yon, gojuu roku",
        ("ja", "12.5"): "eki wa juu ni ten go",
        ("ja", "12,5"): "eki wa juu ni, go",
        ("ja", "0.05"): "eki wa zero ten zero go",
        ("ja", "-3"): "eki wa - san",
        ("ja", "1 000 000"): "eki wa ichi zero zero zero zero zero zero",
        ("ja", "$20"): "eki wa nijuu dollar",
        ("ja", "20$"): "eki wa nijuu dollar",
        ("ja", "20.15€"): "eki wa nijuu ten ichi go euro",
        ("ja", "€5"): "eki wa go euro",
        ("ja", "£3.50"): "eki wa san ten go zero pond",
        ("ja", "50%"): "eki wa gojuu percent",
        ("ja", "% 50"): "eki wa percent gojuu",
        ("ja", "20°"): "eki wa nijuu",
        ("ja", "#1"): "eki wa# ichi",
        ("ja", "&"): "eki wa and",
        ("ja", "3 + 4 = 7"): "eki wa san+ yon= nana",
        ("ja", "¥500"): "eki wa gohyaku en",
    },
    HINDI: {
        ("hi", "7"): "आज सात",
        ("hi", "007"): "आज सात",
        ("hi", "2024"): "आज दो हज़ार चौबीस",
        ("hi", "1,234"): "आज एक हज़ार दो सौ चौंतीस",
        ("hi", "1.234"): "आज एक दशमलव दो तीन चार",
        ("hi", "1,234.56"): "आज एक हज़ार दो सौ चौंतीस दशमलव पाँच छह",
        ("hi", "1.234,56"): "आज एक दशमलव दो तीन चार,छप्पन",
        ("hi", "12.5"): "आज बारह दशमलव पाँच",
        ("hi", "12,5"): "आज बारह,पाँच",
        ("hi", "0.05"): "आज शून्य दशमलव शून्य पाँच",
        ("hi", "-3"): "आज -तीन",
        ("hi", "1 000 000"): "आज एक शून्य शून्य",
        ("hi", "$20"): "आज बीस डॉलर",
        ("hi", "20$"): "आज बीस डॉलर",
        ("hi", "20.15€"): "आज बीस दशमलव एक पाँच यूरो",
        ("hi", "€5"): "आज पाँच यूरो",
        ("hi", "£3.50"): "आज तीन दशमलव पाँच शून्य पाउंड",
        ("hi", "50%"): "आज पचास प्रतिशत",
        ("hi", "% 50"): "आज प्रतिशत पचास",
        ("hi", "20°"): "आज बीस डिग्री",
        ("hi", "#1"): "आज हैश एक",
        ("hi", "3 + 4 = 7"): "आज तीन + चार = सात",
        ("hi", "¥500"): "आज ¥पाँच सौ",
        ("hi", "1st 2ND"): "पहला दूसरा",
        ("hi", "५० लोग"): "पचास लोग",
    },
    ARABIC: {
        ("ar", "١٢٣"): "مائة و ثلاثة و عشرون",
        ("ar", "١٢٫٥"): "اثنا عشر , خمسون",
        ("ar", "12٫5"): "اثنا عشر , خمسون",
        ("ar", "١٬٢٣٤٬٥٦٧"): "مليون و مئتان و أربعة و ثلاثون ألفاً و خمسمائة و سبعة و ستون",
        ("ar", "٥٠٪"): "خمسون في المئة",
        ("ar", "٪"): "في المئة",
        ("ar", "۵۰ ۱۲"): "خمسون اثنا عشر",
    },
    WIDE: {
        ("ko", "50％"): "osib peosenteu",
        ("ko", "R＆B"): "r geuligo b",
        ("ja", "R＆B"): "r and b",
        ("ko", "ａ１"): "ａil",
    },
    COMPOSED: {
        ("fr", "cafe\u0301"): "café",
        ("tr", "I\u0307stanbul"): "istanbul",
    },
    INVISIBLE: {
        ("en", "in\xadvisible\u200b"): "invisible",
    },
    RULELESS: {
        ("cs", "1. května"): "jedna. května",
    },
    DATES: {
        ("de", "17.5.2024"): "siebzehn fünf zweitausendvierundzwanzig",
        ("en", "2024-05-17"): "two thousand and twenty-four five seventeen",
        ("en", "3:45"): "three forty-five",
        ("ja", "3:45"): "san yonjuu go",
    },
}
"""Every text that we read otherwise than stock, by reason: (language, written) and what we read."""


def all_strings() -> list[tuple[str, str, str]]:
    """(language, written, whole text); no two are alike."""
    beside = [(code, written, f"{word} {written}") for code, word in WORDS.items() for written in WRITTEN]
    own = [(code, text, text) for table in (SENTENCES, ABBREVIATIONS, ORDINALS) for code, text in table.items()]
    return [*beside, *own, *((code, text, text) for text, code in ALONE)]
