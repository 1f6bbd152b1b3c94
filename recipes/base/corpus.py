"""Stage 1: hours of speech by the teacher with exact phoneme durations, in shards that are made once.

Leaves below `<work>/corpus/`: plan.jsonl (every clip of the corpus, written before the first is spoken), and for each
shard `<set>_<number>.flac` (its clips one after another, 24 kHz) with `<set>_<number>.json` (what each clip is, and its
place in the sound). A shard is complete when its .json exists, which is written last. While a file named PAUSE lies in
the work folder, nothing is computed.

    python -m recipes.base.corpus --work FOLDER --voices kokoro-js-1.2.1.tgz
"""

import itertools
import json
import logging
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import soundfile
import tyro

from recipes.base.teacher import SAMPLE_RATE, VOICES_PACKAGE, Teacher, read_voices
from recipes.base.texts import Texts
from utils.errors import UserError
from utils.files import write_atomic

HELD_OUT = {"choosing": ("bm_daniel", "af_nova"), "reporting": ("am_liam", "bf_lily")}
"""Voices that no model of the base trains on, not even in a blend: two to choose settings with, two to report with."""
WHISPERER = "af_nicole"
"""Whispers; blends with it would have no pitch."""
ANCHORS = ("af_heart", "af_bella", "am_michael", "bf_emma", "bm_george", "bm_fable")
"""The base's own voices."""
NUM_BLENDS = 150
ANCHOR_HOURS, BLEND_MINUTES = 2.0, 3.5
MEAN_CLIP_S = 4.1
CLIPS_PER_SHARD = 100
CLIPS_PER_TEST_VOICE = 16
"""Of each anchor and each held-out voice, in the choosing and in the reporting set."""
FINE_TUNING_MINUTES = 11
"""Of each held-out voice, to fine-tune on."""
MAX_PHONEMES = 180
MAX_SECONDS = 11.5
PAUSE = "PAUSE"


@dataclass(frozen=True, kw_only=True)
class Clip:
    """One clip that is to be spoken."""

    speaker: str
    """An anchor, a held-out voice, or a blend by its number."""
    voice: dict[str, float]
    """Share of each of the teacher's voices."""
    text: str
    """What is said."""


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """Speak the corpus, from where it was left."""

    work: Path
    """Folder of the recipe's work."""
    voices: Path = Path(VOICES_PACKAGE)
    """The npm package with the teacher's voices, as `npm pack kokoro-js@1.2.1` leaves it."""
    sets: tuple[str, ...] = ("choosing", "reporting", "training", "fine_tuning")
    """Which sets, in this order."""
    part: int = 0
    """This process makes the shards whose number divided by `parts` leaves `part`."""
    parts: int = 1
    """Processes that share the work."""
    hours: float = 24.0
    """Hours of speech in the training set after which to stop."""


def plan(voices: list[str], *, seed: int = 11) -> dict[str, list[Clip]]:
    """Every clip of the corpus by set, in the order in which it is spoken: any beginning has the whole's mix.

    Args:
        voices: names of all English voices of the teacher.
        seed: of texts and blends.
    """
    held_out = tuple(itertools.chain.from_iterable(HELD_OUT.values()))
    rng, mixable = random.Random(seed), sorted(set(voices) - {*held_out, WHISPERER})
    blends = {f"blend_{number:03d}": _blend(mixable, rng) for number in range(NUM_BLENDS)}
    sets, texts = {}, {split: iter(Texts(split, seed)) for split in ("training", *HELD_OUT)}

    def clips(split: str, speakers: Iterator[str], number: int) -> list[Clip]:
        chosen = itertools.islice(speakers, number)
        return [Clip(speaker=s, voice=blends.get(s, {s: 1.0}), text=next(texts[split])) for s in chosen]

    for split, names in HELD_OUT.items():
        sets[split] = clips(split, itertools.cycle((*names, *ANCHORS)), CLIPS_PER_TEST_VOICE * (2 + len(ANCHORS)))
    anchor_clips = round(ANCHOR_HOURS * 3600 * len(ANCHORS) / MEAN_CLIP_S)
    blend_clips = round(BLEND_MINUTES * 60 * NUM_BLENDS / MEAN_CLIP_S)
    turns = _interleaved(itertools.cycle(ANCHORS), itertools.cycle(blends), anchor_clips / (anchor_clips + blend_clips))
    sets["training"] = clips("training", turns, anchor_clips + blend_clips)
    num_fine_tuning = round(FINE_TUNING_MINUTES * 60 / MEAN_CLIP_S) * len(held_out)
    sets["fine_tuning"] = clips("training", itertools.cycle(held_out), num_fine_tuning)
    return sets


def read_plan(work: Path, voices: Path) -> dict[str, list[Clip]]:
    """The plan of a work folder, written at the first call: a later version of the recipe keeps to it."""
    path = work / "corpus" / "plan.jsonl"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [
            {"set": name, **asdict(one)} for name, clips in plan(list(read_voices(voices))).items() for one in clips
        ]
        write_atomic(path, "".join(json.dumps(row) + "\n" for row in rows))
    sets: dict[str, list[Clip]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        sets.setdefault(row.pop("set"), []).append(Clip(**row))
    return sets


def run(config: CorpusConfig) -> None:
    """Speak every shard of this process that is missing."""
    sets = read_plan(config.work, config.voices)
    teacher, spoken_s = Teacher(config.voices), 0.0
    for name in config.sets:
        shards = [sets[name][first : first + CLIPS_PER_SHARD] for first in range(0, len(sets[name]), CLIPS_PER_SHARD)]
        for number, clips in enumerate(shards):
            path = config.work / "corpus" / f"{name}_{number:04d}.json"
            if number % config.parts == config.part and not path.is_file():
                wait_while_paused(config.work)
                began, cpu = time.monotonic(), time.process_time()
                seconds = speak_shard(teacher, clips, path)
                spoken_s += seconds if name == "training" else 0.0
                logging.info(
                    "corpus: %s, %d s of speech in %d s, %.2f core-seconds a second",
                    *(path.stem, seconds, time.monotonic() - began, (time.process_time() - cpu) / seconds),
                )
            if spoken_s > config.hours * 3600:
                return


def speak_shard(teacher: Teacher, clips: list[Clip], path: Path) -> float:
    """Speak clips into a shard; texts that are too long for training are dropped and said so in it.

    Returns:
        Seconds of speech.
    """
    rows: list[dict[str, object]] = []
    dropped: list[str] = []
    sounds, start = [], 0
    for clip in clips:
        if len(teacher.tokens(clip.text)) > MAX_PHONEMES:
            dropped.append(clip.text)
            continue
        spoken = teacher.speak(clip.text, clip.voice)
        if spoken.samples.size > MAX_SECONDS * SAMPLE_RATE:
            dropped.append(clip.text)
            continue
        place = {"start": start, "num_samples": spoken.samples.size}
        rows.append(asdict(clip) | place | {"tokens": spoken.tokens, "durations": spoken.durations})
        sounds.append(np.round(np.clip(spoken.samples, -1, 1) * 32767).astype(np.int16))
        start += spoken.samples.size
    part = path.with_suffix(".part")
    soundfile.write(part, np.concatenate(sounds), SAMPLE_RATE, subtype="PCM_16", format="FLAC")
    part.rename(path.with_suffix(".flac"))
    write_atomic(path, json.dumps({"clips": rows, "dropped": dropped}))
    return start / SAMPLE_RATE


def wait_while_paused(work: Path) -> None:
    """Return at once, or as soon as the file PAUSE has left the work folder."""
    while (work / PAUSE).exists():
        time.sleep(5)


def _blend(voices: list[str], rng: random.Random) -> dict[str, float]:
    """A convex blend of three voices of the teacher: a speaker of its own."""
    weights = [rng.expovariate(1.0) for _ in range(3)]  # shares of three exponential draws are a flat Dirichlet draw
    return {name: weight / sum(weights) for name, weight in zip(rng.sample(voices, 3), weights, strict=True)}


def _interleaved(first: Iterator[str], second: Iterator[str], share: float) -> Iterator[str]:
    """`share` of the first and the rest of the second, as evenly as whole numbers allow."""
    for number in itertools.count():
        yield next(first if int((number + 1) * share) > int(number * share) else second)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        run(tyro.cli(CorpusConfig))
    except UserError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
