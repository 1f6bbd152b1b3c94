"""Map punctuation of all scripts to the ASCII marks that every base reads, for languages without own rules.

A base's vocabulary lacks the full stops of most scripts, so clips would be dropped for their last character. The base
has learned how long to pause at ASCII marks; a new token would start untrained.
"""

import re

_MARKS = {
    **dict.fromkeys("։۔।॥።፨။។៕།༎。｡．꘎᙮꧉", "."),
    **dict.fromkeys("،、，፣၊՝߸᠂", ","),
    **dict.fromkeys("؛；፤", ";"),
    **dict.fromkeys("：፥፦៖", ":"),
    **dict.fromkeys("؟？፧", "?"),
    **dict.fromkeys("！߹", "!"),
    **dict.fromkeys("’‘‛ʼʻ׳＇`´", "'"),
    **dict.fromkeys("‐‑‒−־⁃－", "-"),
    **dict.fromkeys("（", "("),
    **dict.fromkeys("）", ")"),
    **dict.fromkeys("٪％﹪", "%"),
    # Between words or syllables.
    **dict.fromkeys("፡་༌᠎", " "),
    # Quotes, and the sign of Hebrew acronyms, are not spoken.
    **dict.fromkeys('"“”„‟«»‹›「」『』《》〈〉״՛', ""),
}
INSTEAD = {
    **dict.fromkeys("“”„‟«»＂″", '"'),
    **dict.fromkeys("‘’‚‛`´ʼʹ′", "'"),
    **dict.fromkeys("–—―−‐‑‒", "-"),
    **{"…": "...", "•": ",", "·": ",", "／": "/", "_": " ", "|": ","},
    **{"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "ł": "l", "ı": "i"},
}
"""What people mean by characters that Unicode does not take apart."""
_ASCII = str.maketrans(_MARKS)
_GREEK = str.maketrans({";": "?", "·": ",", "\u037e": "?", "\u0387": ","})
"""Greek asks with a semicolon, and pauses at a raised dot."""
# Armenian asks and exclaims on the stressed vowel, far from the end of the sentence.
_INNER = {"՞": "?", "՜": "!"}
_SENTENCE = re.compile(r"([^.!?։]*)([.!?։]?)")


def plain_punctuation(text: str, code: str) -> str:
    """`text` with ASCII punctuation and without quotes; signs that no table knows stay as they are.

    Args:
        text: in any language.
        code: its plain code; Greek marks mean something else than they look like.
    """
    if code == "el":
        text = text.translate(_GREEK)
    if any(mark in text for mark in _INNER):
        text = _SENTENCE.sub(_mark_at_the_end, text)
    return text.translate(_ASCII)


def _mark_at_the_end(match: re.Match[str]) -> str:
    sentence, end = match[1], match[2]
    marks = [char for char in sentence if char in _INNER]
    if not marks:
        return match[0]
    plain = "".join(char for char in sentence if char not in _INNER)
    return plain + (end if end in ("!", "?") else _INNER[marks[-1]])
