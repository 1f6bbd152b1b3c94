"""Score finished clips with the base's speaker encoder and, where installed, DNSMOS; transcribe them for comparison.

Shapes: B crops, N samples at 16 000 Hz, M mel bands, F frames, E values of an embedding.
"""

import base64
import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from utils.audio.decode import load_audio
from utils.audio.measure import power_spectrogram
from utils.audio.recognizer import Transcriber
from utils.audio.resample import resample
from utils.audio.voice_activity import VAD_RATE
from utils.dataset.storage.report import ClipReport
from utils.dataset.storage.work import Work, short_hash
from utils.options import DATASET_RATE, SPEAKER_RATE
from utils.text.error_rate import disagreement

CROP_S = 3.0
"""The speaker encoder embeds all of a clip in crops this long, in seconds: one alone may be said in any manner."""
_CROPS_AT_ONCE = 8
"""What their layers pass on to each other then stays in the processor's cache."""
_LOG_EVERY = 50
"""Clips between two lines in the log: transcribing a dataset takes long."""

log = logging.getLogger(__name__)


def packed(vector: Tensor) -> str:
    """A unit vector as base64 of signed bytes, scaled to its largest value: 1 % of precision is plenty to compare."""
    scaled = vector / vector.abs().max().clamp(min=1e-9) * 127
    return base64.b64encode(scaled.round().to(torch.int8).numpy().tobytes()).decode("ascii")


def unpacked(texts: list[str]) -> np.ndarray:
    """Vectors that were `packed`, as unit vectors, [count, size] float32."""
    rows = np.stack([np.frombuffer(base64.b64decode(text), dtype=np.int8) for text in texts]).astype(np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


class FastSpeakerEncoder(nn.Module):
    """Coqui's `ResNetSpeakerEncoder` with fewer passes over memory; embeddings are stock's to the rounding of float32.

    Batch norms that follow a convolution become part of it, the power spectrum is computed without the magnitude, and
    all tensors are laid out channels last.

    Args:
        encoder: from `load_speaker_encoder`; it is changed.
    """

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        layers = encoder.layer1, encoder.layer2, encoder.layer3, encoder.layer4
        for block in chain(*layers):
            block.conv2, block.bn2 = fuse_conv_bn_eval(block.conv2, block.bn2), nn.Identity()
            if block.downsample is not None:
                block.downsample = fuse_conv_bn_eval(*block.downsample)
        encoder.torch_spec = _MelSpectrogram(*encoder.torch_spec)
        self.encoder = encoder.to(memory_format=torch.channels_last)

    @torch.inference_mode()
    def forward(self, wavs: Tensor) -> Tensor:
        """Embeddings of unit length, [B, E], of crops, [B, N]."""
        return torch.cat([self.encoder(part, l2_norm=True) for part in wavs.split(_CROPS_AT_ONCE)])


class _MelSpectrogram(nn.Module):
    """As torchaudio's, after the same pre-emphasis.

    Args:
        emphasis: coqui's filter of two taps.
        mel: torchaudio's `MelSpectrogram`.
    """

    def __init__(self, emphasis: Any, mel: Any) -> None:
        super().__init__()
        self.n_fft, self.hop = mel.n_fft, mel.hop_length
        self.filter = nn.Buffer(emphasis.filter.flatten())
        self.window = nn.Buffer(mel.spectrogram.window)
        self.filters = nn.Buffer(mel.mel_scale.fb)

    def forward(self, wavs: Tensor) -> Tensor:
        """[B, M, F] of [B, N]."""
        before = torch.cat([wavs[:, 1:2], wavs[:, :-1]], dim=1)
        emphasized = self.filter[0] * before + self.filter[1] * wavs
        power = power_spectrogram(emphasized, self.window, self.hop, n_fft=self.n_fft)
        return (power.transpose(1, 2) @ self.filters).transpose(1, 2)


@dataclass
class Scorers:
    """What is asked of each clip; picklable, the models are loaded in the process that first needs them.

    Args:
        base: folder of the base whose speaker encoder scores; None is without.
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

    def score(self, wavs: Mapping[str, Tensor]) -> dict[str, dict[str, Any]]:
        """Of each clip, {wav hash: [1, N] at 22 050 Hz}, its scores by their keys."""
        voices = self._voices(list(wavs.values())) if self.base is not None else [""] * len(wavs)
        return {
            wav_hash: {key: voice if name == "speaker" else self._mos(wav) for name, key in self.keys(wav_hash).items()}
            for (wav_hash, wav), voice in zip(wavs.items(), voices, strict=True)
        }

    @torch.inference_mode()
    def _voices(self, wavs: list[Tensor]) -> list[str]:
        """The voices as packed vectors, each the mean over its clip."""
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
        # Not a pinned requirement: users who want this score install it.
        dnsmos = import_module("speechmos.dnsmos")
        audio = resample(wav, DATASET_RATE, SPEAKER_RATE).clamp(-1, 1)[0].numpy()
        return round(float(dnsmos.run(audio, sr=SPEAKER_RATE)["ovrl_mos"]), 3)


@cache
def _speaker_encoder(base: Path, fingerprint: str) -> Any:
    """A base's speaker encoder, loaded once a process: it takes longer than scoring ten clips."""
    from utils.bases.base import Base
    from utils.bases.speaker_encoder import load_speaker_encoder

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


def compared(
    clips: Sequence[ClipReport],
    transcriber: Transcriber,
    work: Work,
    wav_of: Callable[[ClipReport], Path],
    read: Callable[[str], str],
) -> list[ClipReport]:
    """The clips with their recognized texts, and how far these are from their transcripts.

    Args:
        clips: those in use.
        transcriber: the recognizer; loaded only when a clip was not transcribed before.
        work: keeps the recognized texts, clip by clip.
        wav_of: where a clip's sound lies.
        read: a text as the model reads it.

    Raises:
        UserError: the recognizer is not there, or a wav cannot be read.
    """
    settings = short_hash("heard", 1, asdict(transcriber.settings))
    found = []
    for number, clip in enumerate(clips, start=1):
        key = f"heard:{settings}:{clip.wav_hash}"
        if clip.wav_hash and work.results.get(key) is None:
            work.put({key: transcriber.transcribe(load_audio(wav_of(clip), VAD_RATE)[0].numpy())})
            if number % _LOG_EVERY == 0 or number == len(clips):
                log.info("transcripts compared with the speech: %d of %d clips", number, len(clips))
        if (recognized := work.results.get(key)) is not None:
            cer = round(disagreement(clip.text, recognized, read), 4)
            clip = replace(clip, heard=recognized, measures=clip.measures | {"cer": cer})
        found.append(clip)
    return found
