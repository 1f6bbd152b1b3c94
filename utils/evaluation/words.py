"""Check the words: a recognizer's error rate, and retrieval among recordings of known sentences."""

import importlib
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from utils.evaluation.features import RATE, Features
from utils.evaluation.warping import distances
from utils.text.case import same_case

Recognise = Callable[[Tensor], str]
"""Speech [1, N] at 16 000 Hz to its words."""


def character_error_rate(wanted: str, heard: str) -> float:
    """Insertions, deletions and substitutions over the characters wanted; case and punctuation do not count."""
    a, b = _letters(wanted), _letters(heard)
    if not a:
        return float(bool(b))
    row = np.arange(len(b) + 1)
    for number, letter in enumerate(a, start=1):
        changed = np.minimum(row[:-1] + [letter != other for other in b], row[1:] + 1)
        # What is inserted builds on the cell to the left: a running minimum of values that each step costs 1.
        steps = np.arange(len(b) + 1)
        row = np.minimum.accumulate(np.concatenate([[number], changed]) - steps) + steps
    return float(row[-1]) / len(a)


def rank(said: Features, wanted: Features, others: Sequence[Features]) -> int:
    """Place of the wanted sentence among all by nearness to what was said; 1 is right, and a tie is lost."""
    right, *wrong = distances(said, [wanted, *others])
    return 1 + sum(one <= right for one in wrong)


def find_recogniser(weights: str | None, language: str) -> Recognise | str:
    """A recogniser of faster-whisper from weights on this machine, or the reason why there is none.

    Args:
        weights: folder with CTranslate2 weights, or the name of a model in Hugging Face's cache, such as small.
        language: code of the sentences' language.
    """
    if weights is None:
        return "no recogniser was named (--whisper small, or a folder with its weights)"
    try:
        library = importlib.import_module("faster_whisper")
    except ModuleNotFoundError:
        return "faster-whisper is not installed"
    try:
        model = library.WhisperModel(weights, device="cpu", compute_type="int8", local_files_only=True)
    except (OSError, RuntimeError, ValueError) as error:
        return f"faster-whisper has no weights {weights!r} on this machine: {str(error).splitlines()[0]}"

    def recognise(wav: Tensor) -> str:
        segments, _ = model.transcribe(wav[0].numpy(), language=language.split("-")[0], beam_size=5)
        return " ".join(segment.text for segment in segments)

    assert RATE == 16_000, "what Whisper hears at"
    return recognise


def _letters(text: str) -> str:
    """Letters, marks and digits in lower case, words apart by one space."""
    kept = "".join(
        char if unicodedata.category(char)[0] in "LMN" else "" if char in "'’" else " "
        for char in same_case(unicodedata.normalize("NFC", text))
    )
    return " ".join(kept.split())
