"""English inflection, as far as the corpus grammar needs it: plurals, verb forms, a or an."""

import re

_HARD_VOWELS = re.compile(r"(?i)^(?:uni|use|usual|util|eu|one\b|once|ura|uro)")
_SILENT_H = re.compile(r"(?i)^(?:hour|hono|honest|heir)")


def plural(noun: str, irregular: str | None = None) -> str:
    """Plural of `noun`, or `irregular` when the lexicon gives it."""
    if irregular:
        return irregular
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + ("es" if re.search(r"(s|x|z|ch|sh)$", noun) else "s")


def split_forms(entry: str) -> dict[str, str]:
    """All forms of a verb from its lexicon entry.

    Args:
        entry: `base`, `base+` (last consonant doubles), or either followed by `:past:participle`. Of several words the
            first is the verb.

    Returns:
        Forms by name: base, 3 (he goes), past, pp (past participle), ing.
    """
    head, *given = entry.split(":")
    doubles = "+" in head
    head, _, tail = head.replace("+", "").partition(" ")
    tail = f" {tail}" if tail else ""
    stem = head + head[-1] if doubles else head
    past = _past(head, stem) + tail
    return {
        "base": head + tail,
        "3": ("goes" if head == "go" else plural(head)) + tail,
        "past": given[0] if given else past,
        "pp": given[1] if len(given) > 1 else past,
        "ing": _progressive(head, stem) + tail,
    }


def with_articles(text: str) -> str:
    """`text` with every `a(n)` decided by the sound of the word after it."""

    def choose(match: re.Match[str]) -> str:
        capital, following = match.group(1), match.group(2)
        vowel = following[0].lower() in "aeiou" and not _HARD_VOWELS.match(following)
        return f"{capital}{'n' if vowel or _SILENT_H.match(following) else ''} {following}"

    return re.sub(r"\b([aA])\(n\) ([\w'-]+)", choose, text)


def _past(head: str, stem: str) -> str:
    if head.endswith("e"):
        return head + "d"
    if re.search(r"[^aeiou]y$", head):
        return head[:-1] + "ied"
    return stem + "ed"


def _progressive(head: str, stem: str) -> str:
    if head.endswith("ie"):
        return head[:-2] + "ying"
    if head.endswith("e") and not head.endswith(("ee", "oe", "ye")):
        return head[:-1] + "ing"
    return stem + "ing"
