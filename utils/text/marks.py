"""Marks in a text to speak: pauses, voices and languages, as `[pause 0.5]`, `[voice: anna]`, or a small part of SSML.

Source: W3C, Speech Synthesis Markup Language 1.1, sections 3.1.3 to 3.2.3 (p, s, lang, voice, break).
"""

import re
from typing import NamedTuple
from xml.etree import ElementTree

from utils.errors import UserError

MAX_PAUSE_S = 10.0
STRENGTHS = {"none": 0.0, "x-weak": 0.1, "weak": 0.2, "medium": 0.4, "strong": 0.7, "x-strong": 1.2}
PARAGRAPH_S, SENTENCE_S = 0.6, 0.3
"""After the elements p and s."""
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_MARK = re.compile(
    r"\[pause(?:\s+([^\]]*))?\]|<break\b([^<>]*)/?>(?:\s*</break>)?|\[\s*voice\s*:\s*(?=[^\s\[\]])([^\[\]]*)\]",
    re.IGNORECASE,
)
_NEARLY = re.compile(r"\[\s*(?:voice(?=[\s:=：])|/\s*voice\b)(?![^\[\]]*\]\()[^\[\]]{0,40}\]?", re.IGNORECASE)
"""Meant as a mark of a voice, where it is none; a link's words, as [voice cloning](address), are not."""
_OPEN = re.compile(r"\[\s*voice\b[^\[\]]*\Z", re.IGNORECASE)
_SSML = ("<speak", "<?xml")
_ATTRIBUTE = re.compile(r"""(time|strength)\s*=\s*["']([^"']*)["']""", re.IGNORECASE)


class Part(NamedTuple):
    """A stretch of text between two marks."""

    text: str
    language: str | None = None
    """Of this part; the whole text's when None."""
    pause_s: float | None = None
    """Silence after it; what its punctuation asks for when None."""
    voice: str = ""
    """Name of who says it; empty where the text's own voice does."""


def read_marks(text: str) -> list[Part]:
    """The parts of a text, without its marks.

    Args:
        text: plain, with `[pause 0.5]`, `<break time="500ms"/>` or `[voice: anna]`, up to `[voice: default]`, where
            wanted; or SSML in one `<speak>` element.

    Raises:
        UserError: SSML that is not well-formed or has other elements than break, lang, p, s and voice; a pause
            that is none; a voice without a name, or a mark of one in another form.
    """
    stripped = text.strip()
    is_ssml = stripped.startswith(_SSML)
    if nearly := _NEARLY.search(stripped if is_ssml else _MARK.sub(" ", text)):
        fix = 'write [voice: NAME] or [voice: default], in SSML <voice name="NAME">'
        raise UserError(what=f"{nearly[0]!r} is no mark of a voice", fix=fix)
    if is_ssml:
        return [part for part in _read_ssml(stripped) if part.text.strip() or part.pause_s]
    parts, at, voice = [], 0, ""
    for mark in _MARK.finditer(text):
        said, seconds = Part(text[at : mark.start()], voice=voice), None
        if mark[3] is not None:
            voice = _own(mark[3])
        elif mark[2] is None:
            seconds = _checked((mark[1] or str(STRENGTHS["medium"])).strip().removesuffix("s"), "[pause 0.5]")
        else:
            seconds = _break_seconds({name.lower(): value for name, value in _ATTRIBUTE.findall(mark[2])})
        if said.text.strip() or mark[3] is None:
            parts.append(said._replace(pause_s=seconds))
        at = mark.end()
    return [*parts, Part(text[at:], voice=voice)] if text[at:].strip() or not parts else parts


def voices_in(text: str) -> set[str]:
    """Names of the voices in a text; none where its marks cannot be read, which is said when it is spoken."""
    try:
        return {part.voice for part in read_marks(text)} - {""}
    except (UserError, RecursionError):
        return set()


def last_voice(text: str) -> str:
    """The last mark of a voice in a plain text, which counts for what follows; empty where there is none."""
    return next((mark[0] for mark in reversed([*_MARK.finditer(text)]) if mark[3]), "")


def has_words(text: str) -> bool:
    """Whether there is something to say beside the marks of a plain text."""
    return any(map(str.isalnum, _MARK.sub("", text)))


def is_open(text: str) -> bool:
    """Whether the beginning of a text cannot be read without what follows: SSML, or half a mark of a voice."""
    return text.lstrip().startswith(_SSML) or _OPEN.search(text) is not None


def _own(name: str) -> str:
    name = name.strip()
    return "" if name.lower() == "default" else name


def _break_seconds(attributes: dict[str, str]) -> float:
    if time := attributes.get("time", "").strip():
        if time.endswith("ms"):
            return _checked(time[:-2], '<break time="500ms"/>') / 1_000
        return _checked(time.removesuffix("s"), '<break time="0.5s"/>')
    strength = attributes.get("strength", "medium")
    if strength not in STRENGTHS:
        raise UserError(what=f"a break's strength is {strength!r}", fix=f"use one of {', '.join(STRENGTHS)}")
    return STRENGTHS[strength]


def _checked(value: str, example: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    limit = MAX_PAUSE_S * (1_000 if "ms" in example else 1)
    if not 0 <= seconds <= limit:
        raise UserError(what=f"a pause is {value!r}", fix=f"write it like {example}, up to {MAX_PAUSE_S:g} s")
    return seconds


def _read_ssml(text: str) -> list[Part]:
    if "<!" in text:
        # Entities could grow a few lines to gigabytes; speech needs none.
        raise UserError(what="SSML with declarations is not read", fix="leave <!DOCTYPE ...> and comments out")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise UserError(what=f"the SSML is not well-formed: {error}", fix="close every element") from error
    parts: list[Part] = []
    _walk(root, root.get(_LANGUAGE), "", parts)
    return parts


def _walk(element: ElementTree.Element, language: str | None, voice: str, parts: list[Part]) -> None:
    """Add the parts of an element; neighbors without a pause between them are joined."""

    def say(text: str | None, spoken: str | None) -> None:
        if not text or not text.strip():
            return
        if parts and parts[-1][1:] == (spoken, None, voice):
            parts[-1] = parts[-1]._replace(text=f"{parts[-1].text} {text}")
        else:
            parts.append(Part(text, spoken, voice=voice))

    def pause(seconds: float) -> None:
        if parts:
            parts[-1] = parts[-1]._replace(pause_s=max(seconds, parts[-1].pause_s or 0.0))

    say(element.text, language)
    for child in element:
        name = child.tag.rsplit("}", 1)[-1]
        if name == "break":
            pause(_break_seconds(dict(child.attrib)))
        elif name in ("lang", "p", "s", "voice"):
            named = child.get("name", "") if name == "voice" else voice
            if name == "voice" and not named.strip():
                raise UserError(what="the SSML element <voice> has no name", fix='write <voice name="NAME">')
            _walk(child, child.get(_LANGUAGE, language), _own(named), parts)
            if name in ("p", "s"):
                pause(PARAGRAPH_S if name == "p" else SENTENCE_S)
        else:
            raise UserError(what=f"the SSML element <{name}> is not supported", fix="use break, lang, p, s and voice")
        say(child.tail, language)
