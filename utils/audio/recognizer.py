"""Speech to text: Whisper, by faster-whisper."""

import logging
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from utils.errors import UserError
from utils.hardware.wheel import load_library, missing_library

log = logging.getLogger(__name__)

NEEDS_WEIGHTS = "--transcriber"
"""Where an error lies that no other recording would be spared."""


@dataclass(frozen=True, kw_only=True)
class Word:
    """A recognized word."""

    start_s: float
    end_s: float
    text: str
    """As the recognizer wrote it: a leading space where its script has one."""


@dataclass(frozen=True, kw_only=True)
class TranscriberSettings:
    """How to recognize speech."""

    model: str
    """A size, such as small or large-v3, a Hugging Face name, or the folder of a converted model."""
    language: str | None
    """Code of the language spoken; None lets the model detect it."""
    device: str = "auto"
    compute_type: str = "default"
    beam_size: int = 5
    fallback: bool = True
    """Decode again by sampling where the text is unlikely, as Whisper does; off, results are deterministic."""


class Transcriber:
    """Whisper, loaded when the first word is asked for.

    Args:
        settings: which model, and how.
    """

    def __init__(self, settings: TranscriberSettings) -> None:
        self.settings = settings

    def words(self, wav: NDArray[np.float32]) -> tuple[list[Word], str]:
        """Words of up to 30 s of speech, and the code of the language they are in.

        Args:
            wav: mono audio at 16 000 Hz, [N].

        Raises:
            UserError: the model is not there, or cannot be loaded with these settings.
        """
        segments, info = self._transcribe(wav, word_timestamps=True)
        words = [
            Word(start_s=round(float(word.start), 3), end_s=round(float(word.end), 3), text=word.word)
            for segment in segments
            for word in segment.words or ()
        ]
        return words, str(info.language)

    def transcribe(self, wav: NDArray[np.float32], language: str | None = None) -> str:
        """What is said in a clip of up to 30 s, without times.

        Args:
            wav: mono audio at 16 000 Hz, [N].
            language: code of the language spoken; that of the settings when not given.

        Raises:
            UserError: the model is not there, or cannot be loaded with these settings.
        """
        segments, _ = self._transcribe(wav, language)
        return " ".join(segment.text.strip() for segment in segments).strip()

    def load(self, language: str | None = None) -> Any:
        """Load the model now, which else happens at the first word.

        Args:
            language: code of a language that it must know, beside that of the settings.

        Raises:
            UserError: it is not there, cannot be loaded with these settings, or does not know the language.
        """
        language, model = language or self.settings.language, self._model
        # An English-only model would recognize English in anything.
        if language is not None and language not in model.supported_languages:
            raise UserError(
                what=f"the Whisper model does not support the language {language!r}",
                where=NEEDS_WEIGHTS,
                fix="use a model that supports it (models whose names end in .en are English only), or none",
            )
        return model

    def _transcribe(self, wav: NDArray[np.float32], language: str | None = None, **more: bool) -> Any:
        model = self.load(language)
        options: dict[str, Any] = {} if self.settings.fallback else {"temperature": 0.0}
        return model.transcribe(
            wav,
            language=(language or self.settings.language) if model.model.is_multilingual else "en",
            beam_size=self.settings.beam_size,
            # A mistake in one piece must not lead the next one astray.
            condition_on_previous_text=False,
            **options,
            **more,
        )

    @cached_property
    def _model(self) -> Any:
        import ctranslate2

        settings, weights = self.settings, str(find_weights(self.settings.model))
        on_gpu = settings.device == "cuda" or (settings.device == "auto" and ctranslate2.get_cuda_device_count() > 0)
        try:
            return _loaded(weights, "cuda" if on_gpu else "cpu", settings.compute_type)
        except (RuntimeError, ValueError, OSError) as error:
            missing = missing_library(error)
            if on_gpu and settings.device == "auto":
                log.warning("recognizing speech on the CPU, because the GPU cannot: %s", missing or error)
                return _loaded(weights, "cpu", "int8")
            raise UserError(
                what=f"the Whisper model cannot be loaded: {missing.what if missing else error}",
                where=f"{settings.model}, device {settings.device}, compute type {settings.compute_type}",
                fix=missing.fix
                if missing
                else "choose another device or compute type (int8 and float32 work everywhere), or another model",
            ) from error


def _loaded(weights: str, device: str, compute_type: str) -> Any:
    """A model that has recognized a second of silence, if it is on a GPU: some libraries are only loaded then."""
    from faster_whisper import WhisperModel

    if device == "cuda":
        load_library("libcublas.so.12")
    # Its own threads would be as many as the machine has processors, beside torch's.
    threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
    model = WhisperModel(weights, device=device, compute_type=compute_type, cpu_threads=threads)
    if device == "cuda":
        segments, _ = model.transcribe(np.zeros(16_000, np.float32), language="en", beam_size=1)
        list(segments)
    return model


def find_weights(model: str, *, download: bool = True) -> Path:
    """Folder of a recognizer's weights.

    Args:
        model: a size, a Hugging Face name, or a folder.
        download: fetch weights that are not on this machine.

    Raises:
        UserError: there is no such model, or it is not here and cannot be downloaded.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        if not (folder / "model.bin").is_file():
            fix = "convert it: ct2-transformers-converter --model FOLDER --output_dir NEW --copy_files tokenizer.json"
            raise UserError(what="the folder holds no converted Whisper model (model.bin)", where=model, fix=fix)
        return folder
    from faster_whisper.utils import available_models, download_model

    if "/" not in model and "\\" not in model and model not in available_models():
        sizes = ", ".join(available_models())
        raise UserError(
            what=f"there is no Whisper model {model!r}", fix=f"use a folder, a Hugging Face name or one of {sizes}"
        )
    try:
        return Path(download_model(model, local_files_only=True))
    except (OSError, ValueError) as error:
        if not download:
            raise UserError(
                what=f"the weights of the Whisper model {model!r} are not on this machine", where=NEEDS_WEIGHTS
            ) from error
        log.info("downloading the Whisper model %s (%s)", model, type(error).__name__)
    try:
        return Path(download_model(model))
    # huggingface_hub and its http library have many errors; those without a network are no OSErrors in all versions.
    except Exception as error:
        log.debug("download failed", exc_info=True)
        raise UserError(
            what=f"the weights of the Whisper model {model!r} are not on this machine and cannot be downloaded "
            f"({type(error).__name__})",
            where=NEEDS_WEIGHTS,
            fix="connect to the network once, or copy a converted model to this machine and use its folder",
        ) from error
