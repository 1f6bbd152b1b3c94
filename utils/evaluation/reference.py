"""The reference synthesizer, espeak-ng: speaks the right sentences and their near misses.

espeak-ng sounds synthetic, but speaks exactly the given words, which is all that a metric of words needs.
"""

import io
import random
import re
import subprocess
import unicodedata
from collections.abc import Sequence

import soundfile
import torch
from torch import Tensor

from utils.audio.resample import resample
from utils.errors import UserError
from utils.evaluation.features import RATE

PROGRAM = "espeak-ng"
VOICES = {"en": "en-us", "zh": "cmn", "zh-cn": "cmn", "pt": "pt-br"}
"""espeak-ng's name of a language where it differs from ours."""
SHARE_SWAPPED = 0.2
NUM_NEAR_MISSES = 5
_IDEOGRAPHS = "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\s\u1361{_IDEOGRAPHS}]+")
"""Amharic also divides words by a mark of its own, U+1361."""
_CLAUSES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
"""Thai, Lao, Burmese and Khmer."""
ABSENT = "espeak-ng is not installed (apt-get install espeak-ng, or espeak-ng's own installer)"


def find_voice(language: str, name: str | None = None) -> str:
    """The reference voice for a language, an espeak-ng voice with or without a variant: en-us, en-us+f2, de.

    Args:
        language: code of the sentences' language.
        name: an espeak-ng voice to take instead of the language's own.

    Raises:
        UserError: there is none.
    """
    voice = name or VOICES.get(language, language)
    say("a", voice)
    return voice


def say(text: str, voice: str, *, pitch: int = 50, speed: int = 160) -> Tensor:
    """The text as the reference synthesizer says it, [1, N] at 16 000 Hz.

    Args:
        text: at least one word.
        voice: see `find_voice`.
        pitch: 0 to 99.
        speed: words a minute.

    Raises:
        UserError: espeak-ng is not installed or has no such voice.
    """
    options = ["-v", voice, "-p", str(pitch), "-s", str(speed), "-z", "-b", "1", "--stdin"]
    try:
        # Through standard input: a text that begins with a dash is no option.
        done = subprocess.run([PROGRAM, *options, "--stdout"], input=text.encode(), capture_output=True, timeout=60)
    except FileNotFoundError as error:
        raise UserError(what=ABSENT) from error
    if done.returncode or len(done.stdout) <= 44:
        message = done.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        raise UserError(what=f"espeak-ng cannot speak with voice {voice!r}: {message[0]}")
    # A stream's header does not know its length; only what follows it counts.
    header, samples = done.stdout[:44], done.stdout[44:]
    rate = int.from_bytes(header[24:28], "little")
    wav, _ = soundfile.read(
        io.BytesIO(samples), dtype="float32", format="RAW", subtype="PCM_16", samplerate=rate, channels=1
    )
    return resample(torch.from_numpy(wav)[None], rate, RATE)


def near_misses(text: str, others: Sequence[str]) -> list[str]:
    """The text with a fifth of its words, at least one, swapped for words of other sentences.

    Args:
        text: at least one word.
        others: sentences to take words from.

    Returns:
        NUM_NEAR_MISSES variants, different ones where the words allow it, the same each time; none when the other
        sentences hold no other word.
    """
    spans = _word_spans(text)
    words = [text[start:end] for start, end in spans]
    own = {word.lower() for word in words}
    pool = sorted({other[start:end].lower() for other in others for start, end in _word_spans(other)} - own)
    if not pool or not words:
        return []
    # Seeded by the text itself: the same sentence gets the same variants in whatever list it stands.
    rng = random.Random(text)
    num_swapped = max(1, round(SHARE_SWAPPED * len(words)))
    variants: list[str] = []
    # Places are dealt like cards: together the variants put every word to the test, each about once.
    deck: list[int] = []
    for _ in range(20 * NUM_NEAR_MISSES):
        if len(deck) < num_swapped:
            deck = rng.sample(range(len(words)), len(words))
        places, deck = deck[:num_swapped], deck[num_swapped:]
        swapped = {spans[place]: rng.choice(pool) for place in places}
        variant = _replaced(text, swapped)
        if variant not in variants:
            variants.append(variant)
        if len(variants) == NUM_NEAR_MISSES:
            break
    return variants


def _word_spans(text: str) -> list[tuple[int, int]]:
    """Where each word begins and ends, without the punctuation around it: pauses stay where they were.

    A Chinese character or a kana counts as a word. Scripts that write words without spaces and with more than one
    character have none: what lies between two spaces is a clause, and another clause is no near miss.
    """
    if _CLAUSES.search(text):
        return []
    spans = []
    for found in _WORD.finditer(text):
        start, end = found.span()
        while start < end and _is_punctuation(text[start]):
            start += 1
        while start < end and _is_punctuation(text[end - 1]):
            end -= 1
        if start < end:
            spans.append((start, end))
    return spans


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character).startswith("P")


def _replaced(text: str, words: dict[tuple[int, int], str]) -> str:
    """The text with other words at these places."""
    parts, done = [], 0
    for (start, end), word in sorted(words.items()):
        parts += [text[done:start], word]
        done = end
    return "".join([*parts, text[done:]])
