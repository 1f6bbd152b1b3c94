"""The espeak-ng voices of the starter recipe: which are trained on, and which never are."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class EspeakVoice:
    """One speaker: an espeak-ng voice variant at a pitch and a speed."""

    name: str
    """Speaker name in the manifests and folder name of its clips."""
    voice: str
    """espeak-ng voice: accent and variant."""
    pitch: int
    """espeak-ng pitch, 0 to 99."""
    speed: int
    """Words a minute."""
    data: Path | None = None
    """Folder that holds espeak-ng-data with this voice; its own when None."""


def _voice(name: str, voice: str, pitch: int, speed: int) -> EspeakVoice:
    return EspeakVoice(name=name, voice=voice, pitch=pitch, speed=speed)


DEMO_VOICE = _voice("demo", "en-us+f2", 55, 155)
"""The voice that users fine-tune on; neither the GPT nor the speaker encoder is trained on it before."""

GPT_VOICES = (
    _voice("adam", "en-us", 45, 160),
    _voice("boris", "en-us+m3", 35, 150),
    _voice("carol", "en-us+f3", 55, 165),
    _voice("diana", "en-us+f4", 45, 150),
    _voice("edgar", "en-us+m7", 55, 170),
    _voice("fiona", "en-us+f1", 50, 155),
    _voice("george", "en-us+m1", 40, 145),
    _voice("hilda", "en-us+Andrea", 40, 165),
    _voice("ivan", "en-us+m5", 60, 165),
    _voice("jane", "en-us+steph", 50, 160),
    _voice("kevin", "en-gb+m4", 50, 160),
    _voice("laura", "en-gb+belinda", 45, 155),
)
"""The twelve speakers that the starter is made of: six low, six high voices, two of them British."""

# f5 has the formants of f2 and differs only in pitch and breath: it is as good as the demo voice, so it goes as well.
FORBIDDEN_VARIANTS = frozenset({"f2", "f5"})

VARIANTS = """
    f1 f3 f4 m1 m2 m3 m4 m5 m6 m7 m8 Alex Alicia Andrea Andy Annie adam antonio aunty belinda benjamin boris caleb
    david Denis Diogo ed edward gene gustave Henrique Hugo iven Jacky john Lee linda Marcelo Marco Mario Michael
    michel Mike Nguyen pablo paul pedro quincy rob robert sandro shelby steph steph2 steph3 travis victor zac
    grandma anika
""".split()  # noqa: SIM905 (sixty quoted names would fill a page)
"""Voices of espeak-ng with formants of their own, without whispers, robots and sound effects."""


def other_voices() -> list[EspeakVoice]:
    """Every variant at two pitches, so that neither pitch nor timbre alone makes a speaker; not the demo voice."""
    accents = ("en-us", "en-gb")
    return [
        _voice(f"{variant}_{pitch}", f"{accents[number % 2]}+{variant}", pitch, speed)
        for number, (variant, (pitch, speed)) in enumerate(product(VARIANTS, ((35, 150), (65, 170))))
    ]


def everyone() -> list[EspeakVoice]:
    """The twelve and the others."""
    return [*GPT_VOICES, *other_voices()]


assert not FORBIDDEN_VARIANTS & {voice.voice.split("+")[-1] for voice in everyone()}
