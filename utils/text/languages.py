"""Language codes: their spellings, their tokens, their lower case, and the packages that their text rules need."""

import importlib.util

from utils.errors import UserError

# The languages that stock coqui-tts has cleaners for.
_CLEANED = "ar cs de en es fr hi hu it ja ko nl pl pt ru tr zh"
CLEANED_LANGUAGES = tuple(_CLEANED.split())
AMHARIC = "amh"
ALIASES = {"am": AMHARIC}
"""Other spellings of a code."""
DOTTED_ALPHABETS = ("az", "crh", "gag", "tr")
"""Azerbaijani, Crimean Tatar, Gagauz and Turkish: İ is the capital of i, I that of ı."""
_DOTTED = str.maketrans("İI", "iı")

_PACKAGES = {"ja": ("cutlet", "unidic_lite"), "zh": ("pypinyin",)}
"""Modules that stock's text rules of a language import when they are first used."""


def plain_code(language: str) -> str:
    """The code of a language as this project writes it: `zh-cn` is `zh`, `am` is `amh`."""
    code = language.strip().lower().replace("_", "-").split("-")[0]
    return ALIASES.get(code, code)


def language_token(code: str) -> str:
    """The token that opens a text of this language: `[en]`; Chinese is `[zh-cn]` in the published vocabulary."""
    return "[zh-cn]" if code == "zh" else f"[{code}]"


def code_of_token(token: str) -> str:
    """The language that a token stands for; empty when it is not a language token."""
    inner = token[1:-1] if token.startswith("[") and token.endswith("]") else ""
    code = "zh" if inner == "zh-cn" else inner
    return code if 2 <= len(code) <= 3 and code.isascii() and code.isalpha() and code.islower() else ""


def require_packages(code: str) -> None:
    """Look for what the language's rules need, without loading it.

    Raises:
        UserError: a package is missing.
    """
    missing = [name for name in _PACKAGES.get(code, ()) if importlib.util.find_spec(name) is None]
    # cutlet works with the large dictionary as well.
    if missing == ["unidic_lite"] and importlib.util.find_spec("unidic") is not None:
        return
    if missing:
        names = " and ".join(name.replace("_", "-") for name in missing)
        raise UserError(what=f"the language {code!r} needs {names}, not installed here", fix=install_line(code))


def install_line(code: str) -> str:
    """How to install what a language's rules need."""
    packages = " ".join(_PACKAGES.get(code, ())).replace("_", "-")
    return f"run: pip install {packages}" if packages else ""


def to_lower(text: str, code: str) -> str:
    """`text` in lower case, composed as before.

    Args:
        text: NFC.
        code: plain code of its language. Texts of the base's own 17 languages are lower-cased by stock's cleaners
            instead, which write i for a Turkish I.

    Source: Unicode, SpecialCasing.txt, and the Turkic lines of CaseFolding.txt.
    """
    return (text.translate(_DOTTED) if code in DOTTED_ALPHABETS else text).lower()


def same_case(text: str) -> str:
    """`text` for comparing with another, of any language: without case, and with one i for i, ı, I and İ.

    Python writes the lower case of İ as i and a dot, which would count as a letter of its own.
    """
    return text.casefold().replace("i\u0307", "i").replace("ı", "i")
