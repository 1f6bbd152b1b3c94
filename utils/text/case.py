"""Lower-case alphabets with a dotted and a dotless i."""

DOTTED_ALPHABETS = ("az", "crh", "gag", "tr")
"""Azerbaijani, Crimean Tatar, Gagauz and Turkish: İ is the capital of i, I that of ı."""
_DOTTED = str.maketrans("İI", "iı")


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
