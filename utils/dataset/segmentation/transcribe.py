"""Write down what a long recording says, with faster-whisper: piece by piece, each piece kept as soon as it is heard.

A piece is up to 28 s of speech between two pauses (Whisper hears 30 s at a time); where silero-vad hears nobody,
nothing is asked. Memory does not grow with the recording.
"""

import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from utils.audio.decode import stream
from utils.audio.pauses import Pause
from utils.audio.resample import resample
from utils.audio.voice_activity import FRAME, VAD_RATE, load_voice_activity
from utils.errors import UserError

log = logging.getLogger(__name__)

NEEDS_WEIGHTS = "--transcriber"
"""Where an error lies that no other recording would be spared."""
_PIECE_S = 28.0
_BLOCK_S = 48
"""Heard at a time; a whole number of voice activity frames."""
_SPEECH = 0.5
_LEAST_SPEECH_S = 0.2
_MARGIN_S = 0.4


@dataclass(frozen=True, kw_only=True)
class Word:
    """A recognised word."""

    start_s: float
    end_s: float
    text: str
    """As the recogniser wrote it: a leading space where its script has one."""


@dataclass(frozen=True, kw_only=True)
class TranscriberSettings:
    """How to recognise speech."""

    model: str
    """A size, such as small or large-v3, a Hugging Face name, or the folder of a converted model."""
    language: str | None
    """Code of the language spoken; None lets the model tell."""
    device: str = "auto"
    compute_type: str = "default"
    beam_size: int = 5


class Transcriber:
    """Whisper, loaded when the first word is asked for.

    Args:
        settings: which model, and how.
    """

    def __init__(self, settings: TranscriberSettings) -> None:
        self.settings = settings

    def hear(self, wav: NDArray[np.float32]) -> tuple[list[Word], str]:
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

    def listen(self, wav: NDArray[np.float32]) -> str:
        """What is said in a clip of up to 30 s, without times.

        Args:
            wav: mono audio at 16 000 Hz, [N].

        Raises:
            UserError: the model is not there, or cannot be loaded with these settings.
        """
        segments, _ = self._transcribe(wav)
        return " ".join(segment.text.strip() for segment in segments).strip()

    def _transcribe(self, wav: NDArray[np.float32], **more: bool) -> Any:
        language = self.settings.language
        model = self._model
        # An English-only model would hear English in anything.
        if language is not None and language not in model.supported_languages:
            raise UserError(
                what=f"the Whisper model does not support the language {language!r}",
                where=NEEDS_WEIGHTS,
                fix="use a model that supports it (models whose names end in .en are English only), or none",
            )
        return model.transcribe(
            wav,
            language=language if model.model.is_multilingual else "en",
            beam_size=self.settings.beam_size,
            # A mistake in one piece must not lead the next one astray.
            condition_on_previous_text=False,
            **more,
        )

    @cached_property
    def _model(self) -> Any:
        from faster_whisper import WhisperModel

        settings = self.settings
        try:
            # Its own threads would be as many as the machine has processors, beside torch's.
            return WhisperModel(
                str(find_weights(settings.model)),
                device=settings.device,
                compute_type=settings.compute_type,
                cpu_threads=int(os.environ.get("OMP_NUM_THREADS", "0")),
            )
        except (RuntimeError, ValueError, OSError) as error:
            raise UserError(
                what=f"the Whisper model cannot be loaded: {error}",
                where=f"{settings.model}, device {settings.device}, compute type {settings.compute_type}",
                fix="choose another device or compute type (int8 and float32 work everywhere), or another model",
            ) from error


def find_weights(model: str) -> Path:
    """Folder of a recogniser's weights, which are downloaded when they are not on this machine.

    Args:
        model: a size, a Hugging Face name, or a folder.

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


def hear_recording(
    audio: Path, pauses: Sequence[Pause], transcriber: Transcriber, kept: Path
) -> tuple[list[Word], dict[str, float]]:
    """All words of a recording, by time.

    Args:
        audio: the recording.
        pauses: where it may be taken apart.
        transcriber: who listens.
        kept: file of what was heard already; pieces in it are not heard again, new ones are added one by one.

    Returns:
        The words, and how many seconds of speech were in which language.

    Raises:
        UserError: the recording cannot be read, or the recogniser is not there.
    """
    done = _read(kept)
    words: list[Word] = []
    languages: dict[str, float] = {}
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.open("a", encoding="utf-8") as file:
        # Closes a line that a kill left torn.
        file.write("\n")
        for start_s, wav in _pieces(audio, pauses):
            key = f"{start_s:.3f}"
            if key not in done:
                heard, language = transcriber.hear(wav)
                done[key] = {"start": key, "language": language, "words": [asdict(word) for word in heard]}
                file.write(json.dumps(done[key]) + "\n")
                file.flush()
                log.info("%s: transcribed %.0f s", audio.name, start_s + len(wav) / VAD_RATE)
            languages[done[key]["language"]] = languages.get(done[key]["language"], 0.0) + len(wav) / VAD_RATE
            for word in done[key]["words"]:
                at = min(word["start_s"], len(wav) / VAD_RATE)
                end = min(max(word["end_s"], at + 0.02), len(wav) / VAD_RATE)
                words.append(Word(start_s=round(start_s + at, 3), end_s=round(start_s + end, 3), text=word["text"]))
    return words, languages


def _read(path: Path) -> dict[str, Any]:
    """Pieces by where they begin; a torn last line counts as not heard."""
    found = {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8").split("\n"):
            try:
                piece = json.loads(line)
                found[piece["start"]] = piece
            except (ValueError, KeyError, TypeError):
                continue
    return found


def _pieces(audio: Path, pauses: Sequence[Pause]) -> Iterator[tuple[float, NDArray[np.float32]]]:
    """Stretches of speech of at most 28 s at 16 000 Hz, each with the second it begins at."""
    vad, state = load_voice_activity(), None
    waiting, begin_s = torch.empty(1, 0), 0.0
    heard = torch.empty(0)
    for block in _blocks(audio):
        # A last frame that is not whole is filled with zeros; only the last block may have one.
        speech, state = vad(block, state)
        waiting, heard = torch.cat([waiting, block], dim=1), torch.cat([heard, speech])
        while waiting.shape[1] >= _PIECE_S * VAD_RATE:
            # Whole frames, so that sound and voice activity stay side by side.
            count = round((_cut_at(begin_s, pauses) - begin_s) * VAD_RATE / FRAME)
            yield from _spoken(begin_s, waiting[:, : count * FRAME], heard[:count])
            waiting, heard = waiting[:, count * FRAME :], heard[count:]
            begin_s += count * FRAME / VAD_RATE
    if waiting.shape[1]:
        yield from _spoken(begin_s, waiting, heard)


def _cut_at(begin_s: float, pauses: Sequence[Pause]) -> float:
    """Where to cut: in the longest pause of the second half of a piece, or at its end where there is none."""
    possible = [pause for pause in pauses if begin_s + _PIECE_S / 2 < pause.middle_s < begin_s + _PIECE_S]
    best = max(possible, key=lambda pause: pause.seconds, default=None)
    return begin_s + _PIECE_S if best is None else best.middle_s


def _spoken(begin_s: float, wav: torch.Tensor, speech: torch.Tensor) -> Iterator[tuple[float, NDArray[np.float32]]]:
    """The part of a piece that somebody speaks in, if anybody does."""
    frames = (speech > _SPEECH).nonzero().flatten()
    if len(frames) * FRAME < _LEAST_SPEECH_S * VAD_RATE:
        return
    margin = int(_MARGIN_S * VAD_RATE / FRAME)
    first, last = max(0, int(frames[0]) - margin), int(frames[-1]) + 1 + margin
    yield begin_s + first * FRAME / VAD_RATE, wav[0, first * FRAME : last * FRAME].numpy()


def _blocks(audio: Path) -> Iterator[torch.Tensor]:
    """The recording at 16 000 Hz in blocks of 48 s, [1, N]; the last is shorter."""
    waiting: list[torch.Tensor] = []
    rate = 0
    for part, rate in stream(audio):
        waiting.append(part)
        if sum(one.shape[1] for one in waiting) >= _BLOCK_S * rate:
            whole = torch.cat(waiting, dim=1)
            yield resample(whole[:, : _BLOCK_S * rate], rate, VAD_RATE)[:, : _BLOCK_S * VAD_RATE]
            waiting = [whole[:, _BLOCK_S * rate :]]
    if waiting and waiting[0].shape[1]:
        yield resample(torch.cat(waiting, dim=1), rate, VAD_RATE)
