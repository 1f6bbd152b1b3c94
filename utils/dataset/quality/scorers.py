"""Score finished clips with the base's speaker encoder, and with DNSMOS where its package is installed."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from utils.audio.resample import resample
from utils.options import DATASET_RATE, SPEAKER_RATE

CROP_S = 3.0
"""The speaker encoder embeds all of a clip in crops this long, in seconds: one alone may be said in any manner."""


@dataclass
class Scorers:
    """What is asked of each clip; picklable, the models are loaded in the process that first needs them.

    Args:
        base: folder of the base whose speaker encoder listens; None asks nobody.
        encoder: its fingerprint, because another encoder's answers mean nothing to this one.
        dnsmos: ask DNSMOS.
    """

    base: Path | None = None
    encoder: str = ""
    dnsmos: bool = False

    def keys(self, wav_hash: str) -> dict[str, str]:
        """The work cache's keys of a clip's scores, by the scorer's name."""
        keys = {}
        if self.base is not None:
            keys["speaker"] = f"speaker:whole:{self.encoder}:{wav_hash}"
        if self.dnsmos:
            keys["mos"] = f"dnsmos:{wav_hash}"
        return keys

    def score(self, wavs: Mapping[str, Tensor]) -> dict[str, Any]:
        """The scores of clips, {wav hash: [1, N] at 22 050 Hz}, by their keys."""
        found: dict[str, Any] = {}
        voices = self._voices(list(wavs.values())) if self.base is not None else [""] * len(wavs)
        for (wav_hash, wav), voice in zip(wavs.items(), voices, strict=True):
            for name, key in self.keys(wav_hash).items():
                found[key] = voice if name == "speaker" else self._mos(wav)
        return found

    @torch.inference_mode()
    def _voices(self, wavs: list[Tensor]) -> list[str]:
        """The voices as packed vectors, each the mean over its clip."""
        from utils.dataset.quality.vectors import packed

        assert self.base is not None
        encoder = _speaker_encoder(self.base, self.encoder)
        parts = [crops(wav) for wav in wavs]
        found: list[str] = [""] * len(wavs)
        by_length: defaultdict[int, list[int]] = defaultdict(list)
        for number, part in enumerate(parts):
            by_length[part.shape[1]].append(number)
        for numbers in by_length.values():
            # One call for all crops of a length: a call for each clip costs half as much again.
            vectors = encoder(torch.cat([parts[n] for n in numbers]))
            for number, own in zip(numbers, vectors.split([len(parts[n]) for n in numbers]), strict=True):
                found[number] = packed(own.mean(dim=0))
        return found

    def _mos(self, wav: Tensor) -> float:
        """DNSMOS's overall score, 1 to 5."""
        # Not a pinned requirement: whoever wants this score installs it.
        dnsmos = import_module("speechmos.dnsmos")
        audio = resample(wav, DATASET_RATE, SPEAKER_RATE).clamp(-1, 1)[0].numpy()
        return round(float(dnsmos.run(audio, sr=SPEAKER_RATE)["ovrl_mos"]), 3)


@cache
def _speaker_encoder(base: Path, fingerprint: str) -> Any:
    """A base's speaker encoder, loaded once a process: it takes longer than scoring ten clips."""
    from utils.bases.base import Base
    from utils.bases.loading import load_speaker_encoder
    from utils.dataset.quality.speaker_encoder import FastSpeakerEncoder

    return FastSpeakerEncoder(load_speaker_encoder(Base(base)))


def crops(wav: Tensor) -> Tensor:
    """A clip, [1, N] at 22 050 Hz, as equally long parts that cover it, [C, M] at 16 000 Hz: `CROP_S` or all of it."""
    length = min(wav.shape[1], round(CROP_S * DATASET_RATE))
    count = -(-wav.shape[1] // length)
    starts = torch.linspace(0, wav.shape[1] - length, count).round().long().tolist()
    return torch.cat([resample(wav[:, start : start + length], DATASET_RATE, SPEAKER_RATE) for start in starts])


def has_dnsmos() -> bool:
    """Whether the package that carries DNSMOS's models is installed; nothing is downloaded."""
    return find_spec("speechmos") is not None and find_spec("onnxruntime") is not None
