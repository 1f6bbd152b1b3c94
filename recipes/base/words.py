"""The gates: how many words a recognizer misreads of the choosing set, as a stage of the base makes its sound."""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from recipes.base.corpus import ANCHORS
from recipes.base.speech import Speech, SpokenClip
from recipes.base.stage import StageConfig
from recipes.base.teacher import SAMPLE_RATE
from recipes.base.texts import wordnet_examples
from utils.audio.resample import resample
from utils.audio.write import write_wav
from utils.evaluation.features import RATE
from utils.evaluation.recognition import Recognized, find_recognizer
from utils.evaluation.scores import error_rates
from utils.files import write_atomic

LISTEN = 6
"""Clips whose sound is kept."""

log = logging.getLogger(__name__)

Make = Callable[[Speech, SpokenClip], Tensor]
"""A clip to its sound as a stage makes it, [1, N] at 24 000 Hz."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Error rates (wer, cer) over the measured clips."""

    sentences: int
    recordings: dict[str, float]
    """Of the corpus' own sound: what the recognizer misreads anyway."""
    made: dict[str, float]


def judge(config: StageConfig, name: str, make: Make, *, speakers: tuple[str, ...] = ANCHORS) -> Judged:
    """Measure plain sentences of the choosing set; writes `<work>/<name>/gate.json` and some sounds.

    Sentences of random words and single words are left to listening: a recognizer guesses them by their context.

    Raises:
        UserError: no recognizer is installed.
    """
    recognizer = find_recognizer(config.whisper, "en")
    speech, plain = Speech(config.work, "choosing"), set(wordnet_examples())
    clips = [clip for clip in speech.clips if clip.speaker in speakers and clip.text in plain][: config.sentences]
    folder = config.work / name
    folder.mkdir(parents=True, exist_ok=True)
    recordings: list[Recognized] = []
    made: list[Recognized] = []
    for number, clip in enumerate(clips):
        with torch.inference_mode():
            sound = make(speech, clip)
        if number < LISTEN:
            write_wav(folder / f"{clip.speaker}_{number}.wav", sound, SAMPLE_RATE)
        for found, wav in ((recordings, speech.sound(clip)[None]), (made, sound)):
            found.append(recognizer.recognize(resample(wav, SAMPLE_RATE, RATE), clip.text))
    judged = Judged(sentences=len(clips), recordings=error_rates(recordings), made=error_rates(made))
    said = {
        "sentences": len(clips),
        "recognizer": recognizer.name,
        "recordings": judged.recordings,
        "made": judged.made,
    }
    said["texts"] = [[clip.text, one.text] for clip, one in zip(clips, made, strict=True)]
    write_atomic(folder / "gate.json", json.dumps(said, indent=1))
    log.info(
        "%s: %d sentences, word error rate %.1f %% (recordings %.1f %%)",
        *(name, len(clips), 100 * judged.made["wer"], 100 * judged.recordings["wer"]),
    )
    return judged
