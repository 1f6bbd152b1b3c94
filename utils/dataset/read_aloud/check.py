"""The process that checks sentences read aloud, which takes torch: python -m utils.dataset.read_aloud.check.

Requests are {do: "check", id, recording, folder, text, language, transcriber} and {do: "load", id}, which only starts
this process; replies are {kind: "done", id, ...}. See `utils.jobs.json_lines`.
"""

import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from utils.audio.decode import load_audio
from utils.audio.recognizer import Transcriber, TranscriberSettings, find_weights
from utils.audio.voice_activity import VAD_RATE
from utils.bases.base import TrainingDefaults
from utils.console import take_output
from utils.dataset.build import sound_settings
from utils.dataset.clips.sound import ClipSound, SoundMaker
from utils.dataset.quality.measures import flag_clips
from utils.dataset.quality.scorers import Scorers
from utils.dataset.settings import PrepareConfig
from utils.dataset.storage.report import ClipReport, Span
from utils.errors import UserError
from utils.jobs.replies import Replies, Requests
from utils.options import DATASET_RATE
from utils.text.error_rate import disagreement, letters
from utils.text.normalize import normalize

LEAD_S, TAIL_S = 0.3, 0.4
"""Silence that stays around a sentence, in seconds: a preparation measures noise in it."""
SLOWEST, FASTEST = 5.0, 26.0
"""Letters a second; 1.7 times beyond what the demo voice's sentences have, 9 to 15."""
SYLLABLES, LETTERS_EACH = re.compile("[\u1200-\u137f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]"), 2.5
"""Characters of Amharic, Chinese, Japanese and Korean, and the letters that one has in a Latin reading of seven
sentences: 1.9 of Amharic, 2.9 of Chinese."""


def main() -> None:
    """Serve requests until the input ends; after an error it is started again."""
    replies = Replies(take_output())
    for request in Requests(sys.stdin):
        number, kind = request.pop("id"), request.pop("do")
        replies.send("done", id=number, **(check(**request) if kind == "check" else {}))


def check(*, recording: str, folder: str, text: str, language: str, transcriber: str) -> dict[str, Any]:
    """Write a recording without the silence around the sentence, and measure it as a preparation would.

    Args:
        recording: path of what the browser recorded.
        folder: an empty one, which gets the sentence as a wav if it can be used at all.
        text: the sentence.
        language: plain code.
        transcriber: Whisper model that listens, if its weights are on this machine; empty for none.

    Returns:
        problems, by the names of reasons and flags of a report; seconds; recognized, the words that were recognized, or
        why none were.

    Raises:
        OSError: the wav cannot be written.
    """
    config = PrepareConfig(
        project="reading",
        input=Path(recording),
        language=language,
        loudness=None,
        keep_before=LEAD_S,
        keep_after=TAIL_S,
    )
    settings = sound_settings(config, TrainingDefaults().max_audio_length)
    maker = SoundMaker(settings=settings, folder=Path(folder), scorers=Scorers())
    (made,) = maker.make([("sentence", (Span(audio=recording),))])
    found = ClipSound(**made["sentence"])
    seconds, recognized = found.num_samples / DATASET_RATE, ""
    if not found.wav_hash:
        lasts = "little speech" if found.is_silent else "too long" if seconds > 1 else "too short"
        return {
            "problems": ["unreadable audio" if found.fault else lasts],
            "seconds": seconds,
            "recognized": recognized,
        }
    measures, wav = dict(found.measures), Path(folder) / f"{found.wav_hash}.wav"
    if transcriber:
        try:
            # A download would keep the reader waiting; the preparation makes it.
            weights = str(find_weights(transcriber, download=False))
            recognizer = _loaded(TranscriberSettings(model=weights, language=language))
            recognized = recognizer.transcribe(load_audio(wav, VAD_RATE)[0].numpy())
            measures["cer"] = disagreement(text, recognized, lambda words: normalize(words, language).text)
        except UserError as error:
            recognized = error.what
    clip = ClipReport(source=str(wav), status="used", text=text, measures=measures, cleaning=settings.key)
    (flagged,) = flag_clips([clip], voices={}, loudness=None)
    read = letters(text)
    rate = (len(read) + len(SYLLABLES.findall(read)) * (LETTERS_EACH - 1)) / max(seconds - LEAD_S - TAIL_S, 0.1)
    problems = [flag.measure for flag in flagged.flags]
    problems += ["too long"] * (rate < SLOWEST) + ["too short"] * (rate > FASTEST)
    # The other measures of a recording without speech mean nothing.
    silence = {"little speech"}.intersection(problems)
    return {"problems": list(silence) or problems, "seconds": seconds, "recognized": recognized}


_loaded = lru_cache(maxsize=1)(Transcriber)


if __name__ == "__main__":
    main()
