"""Check the words: a recognizer, and retrieval among recordings of known sentences."""

from collections.abc import Callable, Sequence

from torch import Tensor

from utils.audio.recognizer import Transcriber, TranscriberSettings, find_weights
from utils.errors import UserError
from utils.evaluation.features import RATE, Features
from utils.evaluation.warping import distances

Recognize = Callable[[Tensor], str]
"""Speech [1, N] at 16 000 Hz to its words."""


def rank(said: Features, wanted: Features, others: Sequence[Features]) -> int:
    """Place of the wanted sentence among all by nearness to what was said; 1 is right, and a tie is lost."""
    right, *wrong = distances(said, [wanted, *others])
    return 1 + sum(one <= right for one in wrong)


def find_recognizer(weights: str | None, language: str) -> Recognize | str:
    """A recognizer of faster-whisper from weights on this machine, or the reason why there is none.

    Args:
        weights: folder with CTranslate2 weights, or the name of a model in Hugging Face's cache, such as small.
        language: code of the sentences' language.
    """
    if weights is None:
        return "no recognizer was named (--whisper small, or a folder with its weights)"
    try:
        folder = find_weights(weights, download=False)
        settings = TranscriberSettings(
            model=str(folder), language=language.split("-")[0], device="cpu", compute_type="int8"
        )
        transcriber = Transcriber(settings)
        transcriber.load()
    except UserError as error:
        return f"faster-whisper cannot be used: {error.what}"
    assert RATE == 16_000, "Whisper's sample rate"
    return lambda wav: transcriber.transcribe(wav[0].numpy())
