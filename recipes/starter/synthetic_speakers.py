"""Synthetic speakers: random voices of espeak-ng, so that a decoder learns what a voice can be.

A voice of espeak-ng is a list of formants with frequency, height and width (espeak-ng, docs/voices.md). Those that come
with it are 60 points; fine-tuning brings a voice that is none of them.
"""

import random
import subprocess
from pathlib import Path

from recipes.starter.voices import EspeakVoice
from utils.errors import UserError
from utils.evaluation.reference import PROGRAM

NUM_SYNTHETIC_SPEAKERS = 200
DATA = "espeak-ng-data"
VARIANTS = Path("voices") / "!v"


def make_synthetic_speakers(folder: Path, *, count: int) -> list[EspeakVoice]:
    """Write a copy of espeak-ng's data with `count` more voices, always the same ones; what is there stays.

    Args:
        folder: gets espeak-ng-data, all of it links but the new voices.
        count: how many.

    Raises:
        UserError: espeak-ng is not installed.
    """
    _link_data(_system_data(), folder / DATA)
    voices = []
    for number in range(count):
        name, draw = f"throat{number:03d}", random.Random(number)
        (folder / DATA / VARIANTS / name).write_text(_voice_file(name, draw), encoding="utf-8")
        accent = draw.choice(("en-us", "en-gb"))
        pitch, speed = draw.randint(35, 65), draw.randint(145, 175)
        voices.append(EspeakVoice(name=name, voice=f"{accent}+{name}", pitch=pitch, speed=speed, data=folder))
    return voices


def _voice_file(name: str, draw: random.Random) -> str:
    """The text of a random voice's file."""
    is_high = draw.random() < 0.5
    lowest = draw.uniform(140, 210) if is_high else draw.uniform(70, 125)
    length = draw.uniform(100, 122) if is_high else draw.uniform(86, 108)
    lines = ["language variant", f"name {name}", f"gender {'female' if is_high else 'male'}"]
    lines += [f"pitch {lowest:.0f} {lowest * draw.uniform(1.3, 1.7):.0f}"]
    lines += [f"flutter {draw.randint(0, 4)}", f"roughness {draw.randint(0, 3)}"]
    for formant in range(9):
        frequency, height, width = length * draw.uniform(0.95, 1.05), draw.uniform(60, 125), draw.uniform(90, 160)
        lines.append(f"formant {formant} {frequency:.0f} {height:.0f} {width:.0f}")
    if draw.random() < 0.3:
        lines.append("breath 0 " + " ".join(str(draw.randint(1, 4)) for _ in range(7)))
    if draw.random() < 0.3:
        lines.append(f"echo {draw.randint(100, 180)} {draw.randint(5, 15)}")
    lines.append(f"consonants {draw.randint(60, 125)} {draw.randint(60, 125)}")
    return "\n".join(lines) + "\n"


def _link_data(source: Path, target: Path) -> None:
    """Links to what English needs: espeak-ng knows 349 voices at most, and forgets languages for those beyond."""
    for folder in (target / "lang", target / VARIANTS):
        folder.mkdir(parents=True, exist_ok=True)
    files = [path for path in source.iterdir() if path.is_file()]
    for path in [*files, source / "lang" / "gmw"]:
        link = target / path.relative_to(source)
        if not link.is_symlink():
            link.symlink_to(path)


def _system_data() -> Path:
    try:
        said = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout
    except FileNotFoundError as error:
        raise UserError(what="espeak-ng is not installed", fix="apt-get install espeak-ng") from error
    return Path(said.split("Data at:")[-1].strip())
