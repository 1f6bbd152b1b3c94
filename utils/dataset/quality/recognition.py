"""Transcribe finished clips, each once, to compare them with their transcripts."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from utils.audio.decode import load_audio
from utils.audio.recognizer import Transcriber
from utils.audio.voice_activity import VAD_RATE
from utils.dataset.storage.report import ClipReport
from utils.dataset.storage.work import Work, short_hash

log = logging.getLogger(__name__)

_LOG_EVERY = 50
"""Clips between two lines in the log: transcribing a dataset takes long."""


def transcribe_clips(
    clips: Sequence[ClipReport], transcriber: Transcriber, work: Work, wav_of: Callable[[ClipReport], Path]
) -> dict[str, str]:
    """What is said in each clip, by wav hash.

    Args:
        clips: those in use.
        transcriber: the recognizer; loaded only when a clip was not transcribed before.
        work: keeps the recognized texts, clip by clip.
        wav_of: where a clip's sound lies.

    Raises:
        UserError: the recognizer is not there, or a wav cannot be read.
    """
    key = short_hash("heard", 1, asdict(transcriber.settings))
    pending = {
        clip.wav_hash: clip for clip in clips if clip.wav_hash and work.get(f"heard:{key}:{clip.wav_hash}") is None
    }
    for number, (digest, clip) in enumerate(pending.items(), start=1):
        wav = load_audio(wav_of(clip), VAD_RATE)[0].numpy()
        work.put({f"heard:{key}:{digest}": transcriber.transcribe(wav)})
        if number % _LOG_EVERY == 0 or number == len(pending):
            log.info("transcripts compared with the speech: %d of %d clips", number, len(pending))
    return {clip.wav_hash: work.get(f"heard:{key}:{clip.wav_hash}") for clip in clips if clip.wav_hash}
