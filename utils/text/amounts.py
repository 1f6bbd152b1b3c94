"""Words for amounts of money, percentages, decimals and units where stock's rules have none or the wrong ones.

Numbers stay digits, which stock's rules read. Forms of a word stand for one, for few and for many of a thing, as far as
a language has them.
"""

import re
from functools import lru_cache

_SIGNS = "$ € £ ¥ ₹ ₽ ₺ ₩"
_MONEY = {
    "en": "- - - yen rupee|rupees ruble|rubles lira won",
    "es": "- - - yen|yenes rupia|rupias rublo|rublos lira|liras won",
    "fr": "- - - yen|yens roupie|roupies rouble|roubles lire|lires won|wons",
    "de": "- - - yen rupie|rupien rubel lira won",
    "it": "- - - yen rupia|rupie rublo|rubli lira|lire won",
    "pt": "dólar|dólares euro|euros libra|libras iene|ienes rupia|rupias rublo|rublos lira|liras won",
    "nl": "- - - yen roepie roebel lira won",
    "pl": "- - funt|funty|funtów jen|jeny|jenów rupia|rupie|rupii rubel|ruble|rubli lira|liry|lir won|wony|wonów",
    "ru": "- - фунт|фунта|фунтов иена|иены|иен рупия|рупии|рупий рубль|рубля|рублей лира|лиры|лир вона|воны|вон",
    "cs": "dolar|dolary|dolarů - libra|libry|liber jen|jeny|jenů rupie|rupie|rupií "
    "rubl|rubly|rublů lira|liry|lir won|wony|wonů",
    "hu": "dollár euró font jen rúpia rubel líra von",
    "tr": "dolar avro sterlin yen rupi ruble lira won",
    "ar": "دولار|دولارات|دولارا يورو جنيه|جنيهات|جنيها ين روبية|روبيات|روبية روبل ليرة|ليرات|ليرة وون",
    "zh": "美元 欧元 英镑 元 卢比 卢布 里拉 韩元",
    "ko": "달러 유로 파운드 엔 루피 루블 리라 원",
    "ja": "ドル ユーロ ポンド 円 ルピー ルーブル リラ ウォン",
    "hi": "डॉलर यूरो पाउंड येन रुपये रूबल लीरा वॉन",
}
_OWN = {
    "pt": {"R$": "real|reais"},
    "pl": {"zł": "złoty|złote|złotych"},
    "ru": {"руб.": "рубль|рубля|рублей"},
    "cs": {"Kč": "koruna|koruny|korun"},
    "hu": {"Ft": "forint"},
    "tr": {"TL": "lira"},
    "zh": {"￥": "元"},
}
_HUNDREDTHS = {
    **{
        "pt": {"R$": "centavo|centavos", "£": "péni|pence"},
        "pl": {"zł": "grosz|grosze|groszy", "£": "pens|pensy|pensów"},
        "tr": {"£": "peni", "₺": "kuruş", "TL": "kuruş"},
    },
    "ru": dict.fromkeys(("₽", "руб."), "копейка|копейки|копеек") | {"£": "пенс|пенса|пенсов"},
    "hu": {"£": "penny"},
    "ar": {"£": "بنس|بنسات|بنسا"},
    "cs": {"$": "cent|centy|centů", "£": "pence|pence|pencí", "Kč": "haléř|haléře|haléřů"},
}
_CENT = {"pt": "cêntimo|cêntimos", "hu": "cent", "tr": "sent", "ar": "سنت|سنتات|سنتا"}
POINT_LANGUAGES = ("en", "hi", "ja", "ru", "zh")
"""Those whose rules of stock read a point before decimals; the others read a comma, and take 12.500 for thousands."""
_POINT = {"zh", "ko", "ja", "hi"}
"""Those that read the hundredths behind a point, and write a comma between thousands."""
_GENDERS: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "ru": ("[ая]", {"1": "одна", "2": "две"}, {}),
    "pl": ("a", {"1": "jedna", "2": "dwie"}, {}),
    "cs": ("[ae]", {"1": "jedna", "2": "dvě"}, {"1": "jeden"}),
    "pt": ("(lir|rupi|libr|hor)a", {"1": "uma", "2": "duas"}, {}),
    "es": ("(lir|rupi|hor)a", {"1": "una"}, {"1": "un"}),
    "it": ("(lir|rupi|or)a", {"1": "una"}, {"1": "un"}),
    "fr": ("(lire|roupie|heure|minute)", {"1": "une"}, {}),
    "de": ("(stunde|minute|pie|lira)", {"1": "eine"}, {"1": "ein"}),
}
"""How a feminine word ends, its numbers that agree with it, and those of other words where stock's rules differ."""
_PERCENT = {"cs": "procento|procenta|procent", "ru": "процент|процента|процентов"}
_DECIMAL = {"tr": "virgül", "ar": "فاصلة"}
"""Words of the decimal sign where stock has none; elsewhere stock's own."""
_UNITS = {
    "en": "kilometer|kilometers centimeter|centimeters "
    "millimeter|millimeters kilogram|kilograms "
    "per|hour degree|degrees celsius|fahrenheit",
    "es": "kilómetro|kilómetros centímetro|centímetros "
    "milímetro|milímetros kilogramo|kilogramos "
    "por|hora grado|grados celsius|fahrenheit",
    "fr": "kilomètre|kilomètres centimètre|centimètres "
    "millimètre|millimètres kilogramme|kilogrammes "
    "par|heure degré|degrés celsius|fahrenheit",
    "de": "kilometer zentimeter millimeter kilogramm pro|stunde grad celsius|fahrenheit",
    "it": "chilometro|chilometri centimetro|centimetri "
    "millimetro|millimetri chilogrammo|chilogrammi "
    "all'ora grado|gradi celsius|fahrenheit",
    "pt": "quilómetro|quilómetros centímetro|centímetros "
    "milímetro|milímetros quilograma|quilogramas "
    "por|hora grau|graus celsius|fahrenheit",
    "nl": "kilometer centimeter millimeter kilogram per|uur graden celsius|fahrenheit",
    "pl": "kilometr|kilometry|kilometrów centymetr|centymetry|centymetrów "
    "milimetr|milimetry|milimetrów kilogram|kilogramy|kilogramów "
    "na|godzinę stopień|stopnie|stopni celsjusza|fahrenheita",
    "ru": "километр|километра|километров сантиметр|сантиметра|сантиметров "
    "миллиметр|миллиметра|миллиметров килограмм|килограмма|килограммов "
    "в|час градус|градуса|градусов цельсия|фаренгейта",
    "cs": "kilometr|kilometry|kilometrů centimetr|centimetry|centimetrů "
    "milimetr|milimetry|milimetrů kilogram|kilogramy|kilogramů "
    "za|hodinu stupeň|stupně|stupňů celsia|fahrenheita",
    "hu": "kilométer centiméter milliméter kilogramm per|óra fok celsius|fahrenheit",
    "tr": "kilometre santimetre milimetre kilogram bölü|saat derece celsius|fahrenheit",
    "ar": "كيلومتر|كيلومترات|كيلومترا سنتيمتر|سنتيمترات|سنتيمترا "
    "مليمتر|مليمترات|مليمترا كيلوغرام|كيلوغرامات|كيلوغراما "
    "في|الساعة درجة|درجات|درجة مئوية|فهرنهايت",
    "zh": "公里 厘米 毫米 公斤 每|小时 度 摄氏|华氏",
    "ko": "킬로미터 센티미터 밀리미터 킬로그램 매|시 도 섭씨|화씨",
    "ja": "キロメートル センチメートル ミリメートル キログラム 毎|時 度 摂氏|華氏",
    "hi": "किलोमीटर सेंटीमीटर मिलीमीटर किलोग्राम प्रति|घंटा डिग्री सेल्सियस|फ़ारेनहाइट",
}
"""Of km, cm, mm and kg; per hour; degrees of Celsius and Fahrenheit."""
_SMALL_UNITS = {
    "en": "meter|meters gram|grams liter|liters gigabyte|gigabytes kilowatt_hour|kilowatt_hours",
    "es": "metro|metros gramo|gramos litro|litros gigabyte|gigabytes kilovatio_hora|kilovatios_hora",
    "fr": "mètre|mètres gramme|grammes litre|litres gigaoctet|gigaoctets kilowattheure|kilowattheures",
    "de": "meter gramm liter gigabyte kilowattstunde|kilowattstunden",
    "it": "metro|metri grammo|grammi litro|litri gigabyte chilowattora",
    "pt": "metro|metros grama|gramas litro|litros gigabyte|gigabytes quilowatt-hora|quilowatts-hora",
    "nl": "meter gram liter gigabyte kilowattuur",
    "pl": "metr|metry|metrów gram|gramy|gramów litr|litry|litrów gigabajt|gigabajty|gigabajtów "
    "kilowatogodzina|kilowatogodziny|kilowatogodzin",
    "ru": "метр|метра|метров грамм|грамма|граммов литр|литра|литров гигабайт|гигабайта|гигабайт "
    "киловатт-час|киловатт-часа|киловатт-часов",
    "cs": "metr|metry|metrů gram|gramy|gramů litr|litry|litrů gigabajt|gigabajty|gigabajtů "
    "kilowatthodina|kilowatthodiny|kilowatthodin",
    "hu": "méter gramm liter gigabájt kilowattóra",
    "tr": "metre gram litre gigabayt kilovat_saat",
    "ar": "متر|أمتار|مترا غرام|غرامات|غراما لتر|لترات|لترا غيغابايت كيلوواط_ساعة",
    "zh": "米 克 升 吉字节 千瓦时",
    "ko": "미터 그램 리터 기가바이트 킬로와트시",
    "ja": "メートル グラム リットル ギガバイト キロワット時",
    "hi": "मीटर ग्राम लीटर गीगाबाइट किलोवाट_घंटे",
}
"""Of m, g, l, GB and kWh."""
_MORE_UNITS = {
    "en": "hour|hours minute|minutes milligram|milligrams milliliter|milliliters megabyte|megabytes hertz",
    "es": "hora|horas minuto|minutos miligramo|miligramos mililitro|mililitros megabyte|megabytes hercio|hercios",
    "fr": "heure|heures minute|minutes milligramme|milligrammes millilitre|millilitres mégaoctet|mégaoctets hertz",
    "de": "stunde|stunden minute|minuten milligramm milliliter megabyte hertz",
    "it": "ora|ore minuto|minuti milligrammo|milligrammi millilitro|millilitri megabyte hertz",
    "pt": "hora|horas minuto|minutos miligrama|miligramas mililitro|mililitros megabyte|megabytes hertz",
    "nl": "uur minuut|minuten milligram milliliter megabyte hertz",
    "pl": "godzina|godziny|godzin minuta|minuty|minut miligram|miligramy|miligramów "
    "mililitr|mililitry|mililitrów megabajt|megabajty|megabajtów herc|herce|herców",
    "ru": "час|часа|часов минута|минуты|минут миллиграмм|миллиграмма|миллиграммов "
    "миллилитр|миллилитра|миллилитров мегабайт|мегабайта|мегабайт герц|герца|герц",
    "cs": "hodina|hodiny|hodin minuta|minuty|minut miligram|miligramy|miligramů "
    "mililitr|mililitry|mililitrů megabajt|megabajty|megabajtů hertz|hertze|hertzů",
    "hu": "óra perc milligramm milliliter megabájt hertz",
    "tr": "saat dakika miligram mililitre megabayt hertz",
    "ar": "ساعة|ساعات|ساعة دقيقة|دقائق|دقيقة مليغرام|مليغرامات|مليغراما مليلتر|مليلترات|مليلترا ميغابايت هرتز",
    "zh": "小时 分钟 毫克 毫升 兆字节 赫兹",
    "ko": "시간 분 밀리그램 밀리리터 메가바이트 헤르츠",
    "ja": "時間 分 ミリグラム ミリリットル メガばいと ヘルツ",
    "hi": "घंटा|घंटे मिनट मिलीग्राम मिलीलीटर मेगाबाइट हर्ट्ज़",
}
"""Of h, min, mg, ml, MB and Hz."""
_SIZES = ("km", "cm", "mm", "kg", "m", "g", "l", "GB", "kWh", "h", "min", "mg", "ml", "MB", "Hz")
_NUMBER = r"(?<![\d.,])\d+(?:[.,]\d+)*"
_UNIT = re.compile(
    rf"({_NUMBER})[ \u00a0\u202f]?(km/h|km|[cm]m|kg|kWh|min|m?[gl]|m?L|m|[GM]B|Hz|h|°[ ]?[CF]|℃)(?![\w/²³])"
)
_SPEEDS = {"ja": r"時速\1km", "tr": r"saatte \1 km"}
_MANY = re.compile(rf"([$€£])({_NUMBER})\s?(thousand|million|billion|trillion)\b", re.IGNORECASE)
_WHOLE = {"$": "dollars", "€": "euro", "£": "pounds"}
_PARTS = re.compile(r"(.*?)(?:[.,](\d{1,2}))?")
_CHINESE = re.compile(r"(?<![\d.,])(?:[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|\d{4,}\.\d+)(?![\d,])")
"""Numbers that stock reads digit by digit, as those of a year."""
_CARDINAL = re.compile(r"(?<=\d{4})\.(?=\s|$)|(?<=\d)\.(?=\s*$)")
"""A full stop behind a year, or at the end of a text, makes no ordinal."""


def write_amounts(text: str, code: str) -> str:
    """`text` with currency signs, percent signs and units as words, behind numbers as digits.

    Args:
        text: digits in ASCII.
        code: one of the 17 languages.
    """
    money, names = _money_rule(code)

    def amount(match: re.Match[str]) -> str:
        sign, number = (match[1], match[2]) if match[1] else (match[4], match[3])
        whole, cents = _parts(number)
        if code in _POINT:
            space = " " if code in ("ko", "hi") else ""
            return f"{whole}.{cents}{space}{names[sign]}" if cents else f"{whole}{space}{names[sign]}"
        below = _HUNDREDTHS.get(code, {}).get(sign) or _CENT.get(code, "")
        joined = " e " if code == "pt" else " "
        rest = joined + f"{counted(code, str(int(cents)), below)} {form(code, cents, below)}" if int(cents or 0) else ""
        return f"{counted(code, whole, names[sign])} {form(code, whole, names[sign])}{rest.rstrip()}"

    text = re.sub(_NUMBER, lambda match: _separated(match[0], code), text)
    if code in _SPEEDS:
        text = re.sub(rf"({_NUMBER})\s?km/h(?!\w)", _SPEEDS[code], text)
    if code == "en":
        text = _MANY.sub(lambda match: f"{match[2]} {match[3]} {_WHOLE[match[1]]}", text)
    text = money.sub(amount, text)
    text = _UNIT.sub(lambda match: _unit(match[2], match[1], code), text)
    if code == "en":
        text = re.sub(r"(?<=\d)(?=[ap]m\b)", " ", text)
    if code == "tr":
        text = re.sub(rf"%\s?({_NUMBER})|({_NUMBER})\s?%", lambda match: f"yüzde {match[1] or match[2]}", text)
    if code in ("zh", "ja", "ko"):
        text = re.sub(r"(?<=\d)\s+%", "%", text)
    if code in _PERCENT:
        text = re.sub(rf"({_NUMBER})\s?%", lambda match: f"{match[1]} {form(code, match[1], _PERCENT[code])}", text)
    if code in _DECIMAL:
        text = re.sub(_NUMBER, lambda match: _decimal(match[0], _DECIMAL[code]), text)
    if code == "zh":
        text = _CHINESE.sub(lambda match: _chinese(match[0]), text)
    return _CARDINAL.sub(" .", text) if code in ("de", "cs", "hu", "tr") else text


@lru_cache
def _money_rule(code: str) -> tuple[re.Pattern[str], dict[str, str]]:
    """Where the language's rules need help with money, and the words of each sign."""
    names = dict(zip(_SIGNS.split(), _MONEY[code].split(), strict=True)) | _OWN.get(code, {})
    names = {sign: words for sign, words in names.items() if words != "-"}
    signs = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    spaced = r"[ \u00a0\u202f]?"
    return re.compile(rf"(?<!\w)({signs}){spaced}({_NUMBER})|({_NUMBER}){spaced}({signs})(?!\w)"), names


def _parts(number: str) -> tuple[str, str]:
    """The whole of an amount without separators, and its hundredths."""
    match = _PARTS.fullmatch(number)
    assert match is not None
    return re.sub("[.,]", "", match[1]), (match[2] or "").ljust(2, "0") if match[2] else ""


def _separated(number: str, code: str) -> str:
    """A number with the decimal sign that the language's rules read, where both signs or the other one are written."""
    whole, sign, fraction = max(number.rpartition(","), number.rpartition("."), key=lambda parts: len(parts[0]))
    wanted = "." if code in POINT_LANGUAGES else ","
    is_fraction = sign and number.count(sign) == 1 and (len(fraction) != 3 or whole == "0")
    if is_fraction and (whole == "0" or set(".,") & set(whole)):
        return re.sub("[.,]", "", whole) + wanted + fraction
    if len(set(number) & set(".,")) == 1 and number.count(sign) > 1:
        if re.fullmatch(r"\d{1,3}(?:[.,]\d{3})+", number):
            return number if code == "zh" and sign == "," else re.sub("[.,]", "", number)
        # The numbers of an address or of a list; stock's rules take the square of its length.
        return number if code == "hi" and sign == "," else re.sub("[.,]", " ", number)
    if sign == "," and code in _POINT:
        return (
            f"{whole}{wanted}{fraction}"
            if len(fraction) < 3
            else number
            if code == "zh" or len(fraction) > 3
            else whole + fraction
        )
    return number


def _chinese(number: str) -> str:
    from TTS.tts.layers.xtts.zh_num2words import num2chn

    return str(num2chn(number.replace(",", "")))


def _decimal(number: str, word: str) -> str:
    whole, sign, fraction = max(number.rpartition(","), number.rpartition("."), key=lambda parts: len(parts[0]))
    if not whole or (sign == "." and len(fraction) == 3 and "," not in whole) or number.count(sign) > 1:
        return number
    zeros = len(fraction) - len(fraction.lstrip("0"))
    return " ".join([re.sub("[.,]", "", whole), word, *"0" * zeros, fraction[zeros:]]).rstrip()


def _unit(sign: str, number: str, code: str) -> str:
    *names, per_hour, degrees, scales = _UNITS[code].split()
    if sign[0] in "°℃":
        scale = scales.split("|")["F" in sign]
        words = [form(code, number, degrees), scale]
        # "5 度" is Celsius without a word; Chinese names the scale first.
        words = words[::-1] if code == "zh" else words[: 1 if code in ("ja", "ko") and "F" not in sign else 2]
        forms = degrees
    else:
        known = dict(zip(_SIZES, (*names, *_SMALL_UNITS[code].split(), *_MORE_UNITS[code].split()), strict=True))
        forms = known[sign.removesuffix("/h").replace("L", "l")]
        words = [form(code, number, forms).replace("_", " ")]
        words += per_hour.split("|") if sign == "km/h" else []
    return ("" if code in ("zh", "ja") else " ").join([counted(code, number, forms), *words])


def counted(code: str, number: str, words: str) -> str:
    """A number in the gender of the word that it counts, as digits where stock's rules have the right one."""
    ending, ones, masculine = _GENDERS.get(code, ("-", {}, {}))
    tens, last = (number[:-1], number[-1:]) if code in ("ru", "cs", "pl") else ("", number)
    if not re.search(f"{ending}$", words.split("|")[0]):
        ones, last = masculine, number
    if last not in ones or tens[-1:] == "1" or (code == "pl" and tens and last == "1"):
        return number
    return f"{int(tens)}0 {ones[last]}" if tens.strip("0") else ones[last]


def form(code: str, number: str, words: str) -> str:
    """The form of a word behind a number: `words` has those for one, for few and for many, as far as there are."""
    forms = words.split("|")
    if not number.isdecimal():
        return forms[1 if code == "ru" else -1]
    value = int(number[-9:])
    few = 2 <= value % 10 <= 4 and not 12 <= value % 100 <= 14
    if len(forms) < 3:
        return forms[0] if value == 1 or (code == "fr" and value == 0) else forms[-1]
    if code == "ar":
        return forms[1] if 3 <= value % 100 <= 10 else forms[2] if value % 100 > 10 else forms[0]
    if code == "cs":
        return forms[0 if value == 1 else 1 if 2 <= value <= 4 else 2]
    is_one = value % 10 == 1 and value % 100 != 11 if code == "ru" else value == 1
    return forms[0 if is_one else 1 if few else 2]
