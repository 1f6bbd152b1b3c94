"""Compare what was spoken with the words that were meant, by a recognizer."""

from collections.abc import Callable

from torch import Tensor

from utils.audio.recognizer import Transcriber, TranscriberSettings
from utils.audio.resample import resample
from utils.audio.voice_activity import VAD_RATE
from utils.inference.batch import Piece
from utils.options import OUTPUT_RATE
from utils.text.error_rate import disagreement
from utils.text.tokenizer import Tokenizer


def word_check(model: str, *, device: str = "auto") -> Callable[[Tokenizer, Piece, Tensor], float]:
    """What a recognizer, which is loaded at once, hears of a sentence: the share of letters that it takes for others.

    Args:
        model: Whisper's size, Hugging Face name or folder.
        device: auto, cpu or cuda.

    Returns:
        A function of a tokenizer, which spells numbers and abbreviations as they are read; of the piece that was
        meant; and of what was spoken, [1, N] at 24 000 Hz. It raises a UserError where the recognizer does not know
        the language.

    Raises:
        UserError: the model is not there, and cannot be downloaded.
    """
    transcriber = Transcriber(TranscriberSettings(model=model, language=None, device=device))
    transcriber.load()

    def error(tokenizer: Tokenizer, piece: Piece, wav: Tensor) -> float:
        samples = resample(wav, OUTPUT_RATE, VAD_RATE)[0].numpy()
        recognized = transcriber.transcribe(samples, piece.language)
        return disagreement(piece.text, recognized, lambda text: tokenizer.normalize(text, piece.language))

    return error
