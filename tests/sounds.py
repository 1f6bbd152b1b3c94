"""Speech-like sound and small projects made of it: real files, no recordings needed."""

from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from utils.audio.write import write_wav
from utils.bases.tiny import babble
from utils.dataset.storage.manifest import Clip, write_manifest
from utils.options import DATASET_RATE
from utils.project.paths import Project

TEXTS = [
    "The early bird catches the worm.",
    "A stitch in time saves nine.",
    "Still waters run deep.",
    "Every cloud has a silver lining.",
    "Actions speak louder than words.",
    "Rome was not built in a day.",
    "Birds of a feather flock together.",
    "The pen is mightier than the sword.",
]


def speech(seconds: float, *, seed: int = 0) -> Tensor:
    """Speech-like sound, [1, N] at 22 050 Hz; the same for the same seed."""
    return _speech(seconds, seed).clone()


@lru_cache(maxsize=64)
def _speech(seconds: float, seed: int) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        start = (seed * 7_001) % (5 * DATASET_RATE)
        count = round(seconds * DATASET_RATE)
        return babble(seconds=int(seconds) + 7)[:, start : start + count]


def make_project(output: Path, *, name: str = "voice", num_train: int = 6, num_eval: int = 2) -> Project:
    """A project with a prepared dataset of short clips, 1.0 to 3.2 s."""
    project = Project(name=name, output=output)
    wavs = project.dataset / "wavs"
    wavs.mkdir(parents=True)
    clips = []
    for number in range(num_train + num_eval):
        path = wavs / f"clip{number}.wav"
        write_wav(path, speech(1.0 + 0.31 * (number % 8), seed=number), DATASET_RATE)
        clips.append(Clip(audio=path, text=TEXTS[number % len(TEXTS)], speaker="one"))
    write_manifest(project.train_csv, clips[:num_train])
    write_manifest(project.eval_csv, clips[num_train:])
    project.language_file.write_text("en", encoding="utf-8")
    return project
