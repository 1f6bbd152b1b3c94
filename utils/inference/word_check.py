"""Compare what was spoken with the words that were meant, by a recognizer."""

from torch import Tensor

from utils.audio.recognizer import Transcriber, TranscriberSettings
from utils.audio.resample import resample
from utils.audio.voice_activity import VAD_RATE
from utils.inference.batch import Piece
from utils.options import OUTPUT_RATE
from utils.text.error_rate import disagreement
from utils.text.tokenizer import Tokenizer


class WordCheck:
    """A recognizer that listens to each sentence; it is loaded at once.

    Args:
        model: Whisper's size, Hugging Face name or folder.
        device: auto, cpu or cuda.

    Raises:
        UserError: the model is not there, and cannot be downloaded.
    """

    def __init__(self, model: str, *, device: str = "auto") -> None:
        self._transcriber = Transcriber(TranscriberSettings(model=model, language=None, device=device))
        self._transcriber.load()

    def error(self, tokenizer: Tokenizer, piece: Piece, wav: Tensor) -> float:
        """Share of a piece's letters that are recognized otherwise.

        Args:
            tokenizer: spells numbers and abbreviations as they are read.
            piece: what was meant.
            wav: what was spoken, [1, N] at 24 000 Hz.

        Raises:
            UserError: the recognizer does not know the language.
        """
        samples = resample(wav, OUTPUT_RATE, VAD_RATE)[0].numpy()
        recognized = self._transcriber.transcribe(samples, piece.language)
        return disagreement(piece.text, recognized, lambda text: tokenizer.normalize(text, piece.language))
