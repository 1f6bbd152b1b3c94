"""A recording to a voice: latents for the GPT and a speaker embedding for the decoder.

Shapes: N samples, P = 32 latents, D model width, E speaker embedding width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.audio.decode import load_audio
from utils.audio.resample import resample
from utils.audio.sound_file import SHORTEST_S, check_reference
from utils.errors import UserError
from utils.model.attention import without_cudnn_attention
from utils.model.gpt import XttsGpt
from utils.model.mel import conditioning_mel
from utils.options import DATASET_RATE, SPEAKER_RATE

Key = TypeVar("Key")
Kept = TypeVar("Kept")


@dataclass(frozen=True, kw_only=True)
class Voice:
    """What the model needs of a speaker."""

    latents: Tensor
    """Conditioning latents, [1, 32, D]."""
    embedding: Tensor
    """Speaker embedding, [1, E, 1]."""

    def to(self, device: torch.device) -> Self:
        return type(self)(latents=self.latents.to(device), embedding=self.embedding.to(device))

    def as_speaker(self) -> dict[str, Tensor]:
        """An entry of stock's speakers_xtts.pth."""
        return {"gpt_cond_latent": self.latents.cpu().clone(), "speaker_embedding": self.embedding.cpu().clone()}


@dataclass(frozen=True, kw_only=True)
class ReferenceLimits:
    """How much of a reference recording is used; config.json holds each base's own values."""

    max_seconds: int = 30
    """Of the recording, for the speaker embedding."""
    latent_seconds: int = 30
    """Of the recording, for the latents."""
    chunk_seconds: int = 4
    """The latents are the mean over chunks of this length."""

    @classmethod
    def of(cls, config: dict[str, Any]) -> Self:
        """The values of a base's config.json."""
        return cls(
            max_seconds=config.get("max_ref_len", 30),
            latent_seconds=config.get("gpt_cond_len", 30),
            chunk_seconds=config.get("gpt_cond_chunk_len", 4),
        )


def load_reference(path: Path, limits: ReferenceLimits) -> Tensor:
    """The part of a recording that is used, decoded by our own audio code: [1, N] at 22 050 Hz.

    Raises:
        UserError: not readable, shorter than 0.33 s, or without sound.
    """
    wav = load_audio(path, DATASET_RATE, max_seconds=limits.max_seconds)[:, : limits.max_seconds * DATASET_RATE]
    check_reference(wav[0].numpy(), DATASET_RATE, where=str(path))
    return wav


@without_cudnn_attention()
@torch.inference_mode()
def make_voice(gpt: XttsGpt, decoder: nn.Module, mel_stats: Tensor, wav: Tensor, limits: ReferenceLimits) -> Voice:
    """The voice of a recording.

    Args:
        gpt: its conditioning encoder and perceiver are used.
        decoder: its speaker encoder is used.
        mel_stats: of the base, [80].
        wav: [1, N] at 22 050 Hz, from `load_reference`.
        limits: how much of it is used.

    Source: coqui-tts, Xtts.get_conditioning_latents.
    """
    device = gpt.final_norm.weight.device
    mel = conditioning_mel(mel_stats).to(device)
    chunk = limits.chunk_seconds * DATASET_RATE
    chunks = wav[:, : limits.latent_seconds * DATASET_RATE].split(chunk, dim=1)
    long_enough = [part for part in chunks if part.shape[1] >= SHORTEST_S * DATASET_RATE]
    latents = torch.stack([gpt.latents(mel(part.to(device))) for part in long_enough]).mean(dim=0)
    audio = resample(wav, DATASET_RATE, SPEAKER_RATE).to(device)
    speaker_encoder: Any = decoder.speaker_encoder
    embedding = speaker_encoder(audio, l2_norm=True).unsqueeze(-1)
    return Voice(latents=latents, embedding=embedding)


def mixed(voices: Sequence[tuple[Voice, float]]) -> Voice:
    """The weighted mean of voices: of their latents, and of their embeddings, which keep their mean length.

    Raises:
        UserError: the weights are not above 0.
    """
    total = sum(weight for _, weight in voices)
    if not voices or total <= 0 or any(weight < 0 for _, weight in voices):
        raise UserError(what="a mixture of voices needs weights above 0", fix="write it like anna:0.7,ben:0.3")
    if len(voices) == 1:
        return voices[0][0]
    shares = torch.tensor([weight / total for _, weight in voices])
    latents = torch.stack([voice.latents for voice, _ in voices])
    embeddings = torch.stack([voice.embedding for voice, _ in voices])
    lengths = embeddings.norm(dim=2, keepdim=True)
    mean = (shares.view(-1, 1, 1, 1).to(embeddings) * embeddings / lengths).sum(0)
    length = (shares.view(-1, 1, 1, 1).to(lengths) * lengths).sum(0)
    return Voice(
        latents=(shares.view(-1, 1, 1, 1).to(latents) * latents).sum(0),
        embedding=F.normalize(mean, dim=1) * length,
    )


def kept(cache: dict[Key, Kept], key: Key, most: int, make: Callable[[], Kept]) -> Kept:
    """What a cache has of a voice, or what is made and kept in place of the least recently used.

    Args:
        cache: in the order of use.
        key: of the voice.
        most: entries.
        make: makes what is not there.
    """
    found = cache.pop(key) if key in cache else make()
    cache[key] = found
    if len(cache) > most:
        del cache[next(iter(cache))]
    return found
