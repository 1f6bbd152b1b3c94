"""Transcribe a long recording with faster-whisper, caching each piece as soon as it is done.

A piece is up to 28 s of speech between two pauses (Whisper's window is 30 s). Sections without speech (silero-vad) are
skipped. Memory is constant.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from utils.audio.decode import stream
from utils.audio.pauses import Pause
from utils.audio.recognizer import Transcriber, Word
from utils.audio.resample import resample
from utils.audio.voice_activity import FRAME, VAD_RATE, load_voice_activity

log = logging.getLogger(__name__)

_PIECE_S = 28.0
_BLOCK_S = 48
"""Transcribed at a time; a whole number of voice activity frames."""
_SPEECH = 0.5
_LEAST_SPEECH_S = 0.2
_MARGIN_S = 0.4


def hear_recording(
    audio: Path, pauses: Sequence[Pause], transcriber: Transcriber, kept: Path
) -> tuple[list[Word], dict[str, float]]:
    """All words of a recording, by time.

    Args:
        audio: the recording.
        pauses: where it may be taken apart.
        transcriber: who listens.
        kept: file of recognized words; pieces in it are not transcribed again, new ones are added one by one.

    Returns:
        The words, and how many seconds of speech were in which language.

    Raises:
        UserError: the recording cannot be read, or the recognizer is not there.
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
                recognized, language = transcriber.words(wav)
                done[key] = {"start": key, "language": language, "words": [asdict(word) for word in recognized]}
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
    """Pieces by where they begin; a torn last line is not counted."""
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
    probabilities = torch.empty(0)
    for block in _blocks(audio):
        # A last frame that is not whole is filled with zeros; only the last block may have one.
        speech, state = vad(block, state)
        waiting, probabilities = torch.cat([waiting, block], dim=1), torch.cat([probabilities, speech])
        while waiting.shape[1] >= _PIECE_S * VAD_RATE:
            # Whole frames, so that sound and voice activity stay side by side.
            count = round((_cut_at(begin_s, pauses) - begin_s) * VAD_RATE / FRAME)
            yield from _spoken(begin_s, waiting[:, : count * FRAME], probabilities[:count])
            waiting, probabilities = waiting[:, count * FRAME :], probabilities[count:]
            begin_s += count * FRAME / VAD_RATE
    if waiting.shape[1]:
        yield from _spoken(begin_s, waiting, probabilities)


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
