"""Sample rates, the values that settings may take, learning-rate schedules, and how speech is generated."""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from utils.settings import Config

DATASET_RATE, OUTPUT_RATE, SPEAKER_RATE = 22_050, 24_000, 16_000
"""Sample rates in Hz: of datasets and codes, of generated speech, and of the speaker encoder's input."""
CODE_SAMPLES = 1_024
"""Audio samples that one DVAE code stands for at `DATASET_RATE`: 21.5 codes a second."""

MIN_CLIP_SECONDS = 0.5
"""Shorter clips are dropped: they hold too little conditioning audio."""
STARTER = "starter"
"""The base that ships with the project: the default."""
LORA_RANK = 28
"""Of LoRA where it is recommended: the largest rank in fours whose voice fits a file of 30 MB at full size. It takes
27.5 MB, and 0.5 MB for the longest recording; rank 32 takes 31.5 MB."""

KEPT_SHARE = 0.1
"""Of an epoch's clips: from a project in another language that names no share."""

Conditioning = Literal["other", "own", "own_masked"]
Precision = Literal["auto", "fp32", "bf16", "fp16"]
SpeechPrecision = Literal["auto", "fp32", "bf16", "fp16", "int8"]
Device = Literal["auto", "cpu", "cuda"]
ComputeDevice = Literal["auto", "cpu", "cuda", "mps"]
"""Of training and speaking; mps, Apple's GPU, is never chosen by auto."""
UsedDevice = Literal["cpu", "cuda", "mps"]
"""What a `ComputeDevice` comes to."""
Channel = Literal["mix", "left", "right", "louder"]
SentenceGrouping = Literal["joined", "sentences", "quick"]
Checkpointing = Literal["none", "selective", "full"]
BestBy = Literal["speech", "loss"]
AttentionKernel = Literal["auto", "torch", "flash-attn", "explicit"]
CompileMode = Literal["off", "default", "reduce-overhead", "max-autotune"]
Schedule = Literal["linear", "cosine", "polynomial", "constant"]

POLYNOMIAL_POWER = 2.0
SHAPES: dict[Schedule, tuple[str, Callable[[float], float]]] = {
    "linear": ("linear", lambda done: 1 - done),
    "cosine": ("cosine", lambda done: 0.5 * (1 + math.cos(math.pi * done))),
    "polynomial": ("polynomial", lambda done: (1 - done) ** POLYNOMIAL_POWER),
    "constant": ("constant", lambda done: 1.0),
}
"""For each: its label, and the share of the peak learning rate by the share of steps done after the warm-up."""


def kept_shares(named: str | None) -> Iterator[tuple[str, float]]:
    """Each folder that `keep_languages` names and its share of an epoch's clips; 0 for one that is not usable."""
    for word in re.findall(r"[^\s,][^,]*(?<!\s)", named or ""):
        folder, colon, share = word.rpartition(":")
        # A path on Windows has a colon, and a folder's name may.
        is_share = colon and not re.search(r"[\\/]", share) and not Path(word).is_dir()
        value = float(share) if re.fullmatch(r"\d*\.?\d+", share) else 0.0
        yield (folder, value) if is_share else (word, KEPT_SHARE)


@dataclass(frozen=True)
class LrSchedule:
    """Share of the peak learning rate at each optimizer step: up linearly, then down to the end."""

    schedule: Schedule
    warmup_steps: int = field(kw_only=True)
    total_steps: int = field(kw_only=True)

    def __call__(self, step: int) -> float:
        """The share at a step, counted from 0."""
        if step < self.warmup_steps:
            # The first step already learns something.
            return (step + 1) / (self.warmup_steps + 1)
        done = (step - self.warmup_steps) / max(self.total_steps - self.warmup_steps, 1)
        return SHAPES[self.schedule][1](min(done, 1.0))


@dataclass(frozen=True, kw_only=True)
class SpeechSettings(Config):
    """Settings of speech generation, the same for all models."""

    language: str | None = None
    """Language code of the text; the model's own when not given."""
    split: SentenceGrouping = "quick"
    """Sentence grouping: quick, the first alone and the rest joined (playback starts sooner); sentences, each alone;
    joined, as many sentences as fit in one generation (even prosody; a small model can lose one)."""
    temperature: float = 0.65
    """Sampling temperature; 0 takes the most likely code each time (greedy)."""
    top_k: int = 50
    """Sample from this many most likely codes; 0 is all."""
    top_p: float = 0.85
    """Sample from the most likely codes whose probabilities sum to this."""
    repetition_penalty: float = 2.0
    """Penalty on codes generated before: divides their positive logits and multiplies their negative ones; 1 is off."""
    speed: float = 1.0
    """Tempo of the speech; 2 is twice as fast."""
    seed: int | None = None
    """Seed of the sampling; a new one for each take when not given."""

    def problems(self) -> list[str]:
        return self.beyond(_SPEECH_LIMITS)


_SPEECH_LIMITS = {
    "temperature": ("[0, 2]", "", "0 (greedy) to 2"),
    "top_p": ("(0, 1]", "", "a probability above 0, up to 1"),
    "top_k": ("[0, inf]", "", "0 (all) or more"),
    "repetition_penalty": ("[1, 20]", "", "1 (none) to 20"),
    "speed": ("[0.25, 4]", "", "0.25 to 4"),
    "seed": (f"[0, {2**63})", "", "0 or more"),
}
