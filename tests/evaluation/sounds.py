"""Sentences with known words: pieces of the bundled voice's recordings, set one behind the other like words.

No synthesizer is needed, and right and wrong are known by construction.
"""

import random
from functools import cache

import torch
from torch import Tensor

from utils.audio.decode import load_audio
from utils.evaluation.features import RATE, trimmed
from utils.project.paths import assets_folder

WORD_S = 0.45
NUM_WORDS = 60


@cache
def recording(number: int) -> Tensor:
    """A recording of the bundled voice, [1, N] at 16 000 Hz, without silence around it."""
    return trimmed(load_audio(assets_folder() / "demo_voice" / "wavs" / f"demo-{number:02}.flac", RATE))


@cache
def words() -> list[Tensor]:
    """Sixty different pieces of speech, [1, 7 200] each."""
    length = round(WORD_S * RATE)
    cuts = [piece for number in range(1, 21) for piece in recording(number).split(length, dim=1)]
    # A fade keeps the seams from clicking.
    fade = torch.linspace(0, 1, 160)
    ramp = torch.cat([fade, torch.ones(length - 320), fade.flip(0)])
    return [piece * ramp for piece in cuts if piece.shape[1] == length][:NUM_WORDS]


def sentence(numbers: list[int]) -> Tensor:
    """These words, [1, N]."""
    return torch.cat([words()[number] for number in numbers], dim=1)


def swapped(numbers: list[int], share: float, *, seed: int) -> list[int]:
    """The sentence with this share of its words replaced by others."""
    rng = random.Random(seed)
    changed = list(numbers)
    for place in rng.sample(range(len(numbers)), round(share * len(numbers))):
        changed[place] = rng.choice([one for one in range(NUM_WORDS) if one not in numbers])
    return changed


def near_misses(numbers: list[int], *, seed: int) -> list[list[int]]:
    """Five variants of ten words that swap two words each; together they swap every word once."""
    rng = random.Random(seed)
    deck = rng.sample(range(len(numbers)), len(numbers))
    others = [one for one in range(NUM_WORDS) if one not in numbers]
    swaps = [dict.fromkeys(deck[2 * number : 2 * number + 2]) for number in range(5)]
    return [[rng.choice(others) if place in swap else one for place, one in enumerate(numbers)] for swap in swaps]


def in_a_room(wav: Tensor, *, seed: int = 0) -> Tensor:
    """The same words otherwise: 8 % slower, other tone, some noise, later."""
    slower = torch.nn.functional.interpolate(wav[None], scale_factor=1.08, mode="linear")[0]
    duller = torch.nn.functional.conv1d(slower[None], torch.tensor([[[0.25, 0.5, 0.25]]]), padding=1)[0]
    noise = 0.002 * torch.randn(duller.shape, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.pad(0.5 * duller + noise, (RATE // 4, RATE // 5))
