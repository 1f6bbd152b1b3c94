"""Stage 4: the corpus as the engine trains on it: wavs at 22 050 Hz and manifests with the exact time of each word.

Leaves below `<work>/clips/`: wavs/<set>/<number>.wav and metadata_<set>.csv with the column word_times, which the GPT's
guided attention learns from. A clip that is already there is not written again.

    python -m recipes.base.clips --work FOLDER --voices kokoro-js-1.2.1.tgz
"""

import csv
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rapidfuzz.distance import Levenshtein

from recipes.base.speech import Speech, SpokenClip
from recipes.base.stage import StageConfig, main_of
from recipes.base.teacher import SAMPLE_RATE, SPACE, VOICES_PACKAGE, Teacher
from utils.audio.resample import resample
from utils.audio.write import write_wav
from utils.config import DATASET_RATE
from utils.files import replacing

SILENT = frozenset(range(SPACE + 1))
"""Tokens of silence, punctuation, and the space between words."""
SLACK = 5
"""A word may have this many phonemes more or fewer in a sentence than alone."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ClipsConfig(StageConfig):
    """Write wavs and manifests of the shards that are complete."""

    voices: Path = Path(VOICES_PACKAGE)
    """The npm package with the teacher's voices."""
    sets: tuple[str, ...] = ("training", "choosing", "reporting")
    """Which sets."""


def write_clips(config: ClipsConfig) -> None:
    """Write what is missing; manifests are written anew."""
    alone = cache(Teacher(config.voices).tokens)
    for name in config.sets:
        speech, folder, timed = Speech(config.work, name), config.work / "clips", 0
        (folder / "wavs" / name).mkdir(parents=True, exist_ok=True)
        with (
            replacing(folder / f"metadata_{name}.csv") as unfinished,
            unfinished.open("w", encoding="utf-8", newline="") as file,
        ):
            rows = csv.writer(file, delimiter="|")
            rows.writerow(("audio_file", "text", "speaker_name", "word_times"))
            for number, clip in enumerate(speech.clips):
                wav = folder / "wavs" / name / f"{number:05d}.wav"
                if not wav.is_file():
                    with replacing(wav) as part:
                        write_wav(part, resample(speech.sound(clip)[None], SAMPLE_RATE, DATASET_RATE), DATASET_RATE)
                times = word_times(clip, alone)
                timed += bool(times)
                cell = " ".join(f"{time:.3f}" for time in times)
                rows.writerow((wav.relative_to(folder).as_posix(), clip.text, clip.speaker, cell))
        log.info("clips: %s, %d clips, %.2f hours, %d with word times", name, len(speech), speech.hours, timed)


def word_times(clip: SpokenClip, alone: Callable[[str], Sequence[int]]) -> list[float]:
    """The second at which each word of the clip's text begins; empty where they cannot be matched.

    espeak-ng says "of the" as one word and some others as two. Where the counts differ, the phonemes of the whole are
    divided among the words so that each is nearest to the word said alone.

    Args:
        clip: with its phonemes and their times.
        alone: phonemes of a single word.
    """
    words, begins = clip.text.split(), [0.0, *clip.ends]
    groups: list[int] = []
    for place, token in enumerate(clip.tokens):
        if token not in SILENT and (place == 0 or clip.tokens[place - 1] in SILENT):
            groups.append(place)
    if len(groups) != len(words):
        places = [place for place, token in enumerate(clip.tokens) if token not in SILENT]
        spoken = [clip.tokens[place] for place in places]
        groups = [places[start] for start in divide(spoken, [_sounds(alone(word)) for word in words])]
    return [float(begins[place]) for place in groups]


def divide(spoken: Sequence[int], words: Sequence[Sequence[int]]) -> list[int]:
    """Where each word begins in the phonemes of the whole; empty where none of the ways is near.

    Dynamic programming over ends: the least sum of edit distances of all divisions into as many parts as words.
    """
    best: dict[int, tuple[int, list[int]]] = {0: (0, [])}
    for word in words:
        reached: dict[int, tuple[int, list[int]]] = {}
        for begin, (cost, starts) in best.items():
            for end in range(begin + max(1, len(word) - SLACK), min(len(spoken), begin + len(word) + SLACK) + 1):
                total = cost + Levenshtein.distance(spoken[begin:end], word)
                if end not in reached or total < reached[end][0]:
                    reached[end] = (total, [*starts, begin])
        best = reached
    return best.get(len(spoken), (0, []))[1]


def _sounds(tokens: Sequence[int]) -> list[int]:
    return [token for token in tokens if token not in SILENT]


if __name__ == "__main__":
    main_of(ClipsConfig, {"train": write_clips})
