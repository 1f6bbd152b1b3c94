"""Stage A: hours of English speech by espeak-ng, with held-out sentences: twelve voices say much, 120 others a little.

Leaves below `work/corpus/`: wavs/<speaker>/<number>.wav (22 050 Hz, mono, 16 bit), metadata_train.csv,
metadata_common.csv (the part of it that has common words, and as many clips of the twelve as of the others),
metadata_eval.csv (held-out sentences of the grammar) and metadata_heldout.csv (the fixed list in held_out.txt, the
twelve taking turns). A clip that is already there is not made again.
"""

import csv
import itertools
import os
import random
import subprocess
import wave
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import soundfile
import torch
from torch import Tensor

from recipes.starter.sentences import SentenceMaker
from recipes.starter.timings import Timer
from recipes.starter.voices import GPT_VOICES, EspeakVoice, everyone, other_voices
from recipes.starter.word_lists import CommonWords, WordLists
from utils.errors import UserError
from utils.options import DATASET_RATE

MAX_CLIP_SAMPLES = 255_995
"""Longest clip that training takes, 11.6 s."""
HEADER = ("audio_file", "text", "speaker_name", "word_times")
MOST_APART_S = 0.15
"""Library and program differ by some pauses at most; a clip that differs by more has no times."""
COMMON_SHARE = 0.6
"""Of the clips with common words; the rest are sentences of the grammar, so that none is forgotten."""
HELD_OUT = Path(__file__).resolve().parent / "held_out.txt"


@dataclass(frozen=True, kw_only=True)
class Utterance:
    """One clip of the corpus."""

    split: str
    """train, common, eval or heldout."""
    voice: EspeakVoice
    """Who speaks."""
    number: int
    """Position within the voice's clips of this split."""
    text: str
    """What is said."""

    def path(self, corpus: Path) -> Path:
        return corpus / "wavs" / self.voice.name / f"{self.split}_{self.number:05d}.wav"


def run(
    work: Path,
    *,
    clips_per_voice: int = 4500,
    lists_per_voice: int = 1500,
    clips_per_other: int = 150,
    num_common: int = 20_000,
    eval_per_voice: int = 20,
    seed: int = 7,
) -> None:
    """Make all clips and the manifests.

    Raises:
        UserError: espeak-ng or the dictionary is not installed.
    """
    corpus, counts = work / "corpus", {"clips_per_voice": clips_per_voice, "lists_per_voice": lists_per_voice}
    counts |= {"clips_per_other": clips_per_other, "num_common": num_common, "eval_per_voice": eval_per_voice}
    planned = list(plan(**counts, seed=seed))
    for voice in everyone():
        (corpus / "wavs" / voice.name).mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        sizes = _with_progress(
            pool.map(lambda one: speak(one.text, one.voice, one.path(corpus)), planned), len(planned)
        )
        made = list(zip(planned, sizes, strict=True))
    rows = {one: size for one, size in made if size <= MAX_CLIP_SAMPLES}
    times = word_times(rows)
    parts = {split: [one for one in rows if one.split == split] for split in ("train", "common", "eval", "heldout")}
    parts["train"] += parts["common"]
    for name, part in parts.items():
        _write_manifest(corpus / f"metadata_{name}.csv", part, times, corpus)
        hours = sum(rows[one] for one in part) / DATASET_RATE / 3600
        print(f"corpus: metadata_{name}.csv has {len(part)} clips, {hours:.2f} hours", flush=True)


def plan(
    *,
    clips_per_voice: int,
    lists_per_voice: int = 0,
    clips_per_other: int = 0,
    num_common: int = 0,
    eval_per_voice: int,
    seed: int,
) -> Iterator[Utterance]:
    """Every clip of the corpus: no sentence occurs twice, none of held_out.txt is in train or eval.

    Args:
        clips_per_voice: of the grammar's sentences, for training, by each of the twelve.
        lists_per_voice: of dictionary words, for training as well.
        clips_per_other: of the grammar's sentences, by each other voice; one more is for evaluation.
        num_common: of common words and of the grammar's sentences, by one of the twelve and one of the others in turn.
        eval_per_voice: of the grammar's sentences, for evaluation, by each of the twelve.
        seed: of both.
    """
    held_out = held_out_sentences()
    forbidden = {text.lower() for text in held_out}
    sentences = (text for text in SentenceMaker(seed) if text.lower() not in forbidden)
    for number, voice in itertools.product(range(eval_per_voice), GPT_VOICES):
        yield Utterance(split="eval", voice=voice, number=number, text=next(sentences))
    for number, text in enumerate(held_out):
        yield Utterance(split="heldout", voice=GPT_VOICES[number % len(GPT_VOICES)], number=number, text=text)
    for number, voice in itertools.product(range(clips_per_voice), GPT_VOICES):
        yield Utterance(split="train", voice=voice, number=number, text=next(sentences))
    lists = iter(WordLists(seed)) if lists_per_voice else iter(())
    for number, voice in itertools.product(range(clips_per_voice, clips_per_voice + lists_per_voice), GPT_VOICES):
        yield Utterance(split="train", voice=voice, number=number, text=next(lists))
    # Last, so that a work folder that was made without them keeps its clips.
    for number, voice in itertools.product(range(clips_per_other + 1 if clips_per_other else 0), other_voices()):
        split = "train" if number else "eval"
        yield Utterance(split=split, voice=voice, number=number, text=next(sentences))
    rng, common = random.Random(seed), iter(CommonWords(seed)) if num_common else iter(())
    turns = itertools.cycle(itertools.chain.from_iterable(zip(other_voices(), itertools.cycle(GPT_VOICES))))
    for number, voice in enumerate(itertools.islice(turns, num_common)):
        text = next(common if rng.random() < COMMON_SHARE else sentences)
        yield Utterance(split="common", voice=voice, number=number, text=text)


def held_out_sentences() -> list[str]:
    """The 120 sentences that evaluation speaks; no training clip contains one of them."""
    return HELD_OUT.read_text(encoding="utf-8").splitlines()


def speak(text: str, voice: EspeakVoice, path: Path) -> int:
    """Have espeak-ng say `text` into the wav file `path`, unless it is there already.

    Returns:
        Length in samples at 22 050 Hz.

    Raises:
        UserError: espeak-ng is not installed.
    """
    if not path.is_file():
        part = path.with_suffix(".part")
        command = ["espeak-ng", "-v", voice.voice, "-p", str(voice.pitch), "-s", str(voice.speed), "-z"]
        command += [f"--path={voice.data}"] if voice.data else []
        try:
            subprocess.run([*command, "-w", str(part), text], check=True, capture_output=True)
        except FileNotFoundError as error:
            raise UserError(what="espeak-ng is not installed", fix="apt-get install espeak-ng") from error
        part.rename(path)
    with wave.open(str(path), "rb") as wav:
        assert (wav.getframerate(), wav.getnchannels(), wav.getsampwidth()) == (DATASET_RATE, 1, 2)
        return wav.getnframes()


def read_manifest(path: Path) -> list[tuple[Path, str, str]]:
    """Rows of a manifest as (wav file, text, speaker)."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="|")
        return [(path.parent / row["audio_file"], row["text"], row["speaker_name"]) for row in rows]


def read_wav(path: Path) -> Tensor:
    """A corpus clip as [1, N], float32."""
    samples, _ = soundfile.read(path, dtype="float32")
    return torch.from_numpy(samples)[None]


def sample_of(paths: list[Path], count: int, *, seed: int) -> list[Path]:
    """`count` of the paths at random, all of them when there are fewer."""
    return random.Random(seed).sample(paths, min(count, len(paths)))


def word_times(sizes: dict[Utterance, int]) -> dict[Utterance, str]:
    """The manifest's cell for each clip, given with its length in samples: seconds, or nothing."""
    timer, cells = Timer(), {}
    # Clips of one voice are timed together, because another voice takes long to load.
    for one in sorted(sizes, key=lambda one: one.voice.name):
        times, seconds = timer(one.text, one.voice)
        length = sizes[one] / DATASET_RATE
        fits = abs(seconds - length) <= MOST_APART_S and times[-1] < length
        cells[one] = " ".join(f"{time:.3f}" for time in times) if fits else ""
    return cells


def _write_manifest(path: Path, clips: list[Utterance], times: dict[Utterance, str], corpus: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="|")
        writer.writerow(HEADER)
        for one in clips:
            writer.writerow((one.path(corpus).relative_to(corpus).as_posix(), one.text, one.voice.name, times[one]))


def _with_progress(sizes: Iterable[int], total: int) -> Iterator[int]:
    """The same sizes, with a line every 500 clips."""
    for number, size in enumerate(sizes, start=1):
        if number % 500 == 0 or number == total:
            print(f"corpus: {number} of {total} clips", flush=True)
        yield size
