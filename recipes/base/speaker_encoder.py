"""Stage 5: the speaker encoder, taught to tell the corpus' voices apart; leaves `<work>/speaker/speaker.safetensors`.

Real people differ by more than the teacher's voices do, and by where and how they were recorded. So each voice played
at five speeds is five speakers, with their own pitch and tract length, and each crop has a room, noise, and limits of
the band of its own, which must not count. Two crops of each speaker must find each other among those of the batch:
a direction for each of some 800 speakers, as a classifier has, learns from the few crops of its own alone, and after
hundreds of steps it had found none.

    python -m recipes.base.speaker_encoder --work FOLDER

Shapes: B crops, N samples at 16 000 Hz, K = N / 2 + 1 frequencies, E width of an embedding.
Sources: speeds of Yamamoto et al. 2019, Speaker augmentation and bandwidth extension for deep speaker embedding; loss
of Chung et al. 2020, In defence of metric learning for speaker recognition, section 2.2 (angular prototypical).
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from TTS.encoder.models.resnet import ResNetSpeakerEncoder

from recipes.base.corpus import HELD_OUT
from recipes.base.gpt import WIDTH
from recipes.base.speech import Speech
from recipes.base.stage import StageConfig, main_of
from recipes.base.teacher import SAMPLE_RATE
from recipes.base.training import REFRESH_EVERY, evaluating, half_precision, save_result, train_steps
from utils.audio.decode import load_audio
from utils.audio.resample import resample
from utils.codec_training.training_state import learning_rate_share, set_learning_rate
from utils.files import write_atomic
from utils.model.shapes import DecoderShape
from utils.model.speaker_encoder import build_speaker_encoder
from utils.model.weights import read_weights
from utils.options import SPEAKER_RATE

SHAPE = DecoderShape(
    latent_width=WIDTH, speaker_width=128, speaker_filters=(12, 24, 48, 96), speaker_layers=(2, 2, 2, 2)
)
"""The base's decoder without trunk and vocoder; stock's speaker encoder has 32 to 256 filters and 3, 4, 6, 3 blocks."""
STEPS, PAIRS = 1_800, 24
SAMPLES = 2 * SPEAKER_RATE
SPEEDS = (0.84, 0.92, 1.0, 1.09, 1.19)
RECORDED_FROM = 400
"""Steps over which the share of crops with a room and noise rises to all."""
LEARNING_RATE, WARMUP, WEIGHT_DECAY = 2e-3, 30, 1e-3
SCALE = 12.0
"""Factor from cosines to logits."""
SOUNDS = frozenset({".wav", ".flac", ".mp3"})
PIECE_S = 5
"""Longest piece, in seconds, in which recordings are compared."""


@dataclass(frozen=True, kw_only=True)
class SpeakerConfig(StageConfig):
    """Train the speaker encoder."""

    real: tuple[Path, ...] = ()
    """Folders with recordings of one real person each, for the measurement alone."""


def train(config: SpeakerConfig) -> None:
    """Train to the end, and measure."""
    speech = Speech(config.work, "training")
    torch.manual_seed(0)
    encoder = with_norm(build_speaker_encoder(SHAPE))
    optimizer = torch.optim.AdamW(encoder.parameters(), weight_decay=WEIGHT_DECAY)
    right = torch.arange(PAIRS)

    def step(number: int) -> dict[str, float]:
        if number % REFRESH_EVERY == 0:
            speech.refresh()
        wavs = draw(speech, np.random.default_rng((7, number)), recorded_share=number / RECORDED_FROM)
        set_learning_rate(optimizer, LEARNING_RATE * learning_rate_share(number, steps=STEPS, warmup_steps=WARMUP))
        with half_precision():
            embeddings = encoder(wavs)
        first, second = F.normalize(embeddings.float()).chunk(2)
        logits = SCALE * first @ second.T
        loss = (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {"loss": loss.item(), "right": (logits.argmax(1) == right).float().mean().item()}

    train_steps("speaker", config.work, STEPS, {"model": encoder, "optimizer": optimizer}, step)
    save_result(config.work / "speaker" / "speaker.safetensors", without_norm(encoder))
    measure(config)


def with_norm(encoder: ResNetSpeakerEncoder) -> ResNetSpeakerEncoder:
    """The encoder with a norm before its last layer: without it all embeddings are alike (cosine 0.995) and stay so."""
    encoder.fc = nn.Sequential(nn.BatchNorm1d(encoder.fc.in_features), encoder.fc)
    return encoder


def without_norm(encoder: ResNetSpeakerEncoder) -> ResNetSpeakerEncoder:
    """The trained encoder in XTTS's form: its norm becomes a part of the last layer."""
    norm, linear = encoder.eval().fc
    with torch.no_grad():
        gain = norm.weight / (norm.running_var + norm.eps).sqrt()
        linear.bias += linear.weight @ (norm.bias - norm.running_mean * gain)
        linear.weight *= gain
    encoder.fc = linear
    return encoder


def measure(config: SpeakerConfig) -> dict[str, dict[str, float]]:
    """How each voice that was never trained on stands out among all others; writes gate.json."""
    encoder, speech = load(config.work), Speech(config.work, "choosing")
    pieces = {
        name: [resample(speech.sound(speech.clips[one])[None], SAMPLE_RATE, SPEAKER_RATE) for one in indices]
        for name, indices in speech.by_speaker.items()
    }
    for folder in config.real:
        sounds = [load_audio(path, SPEAKER_RATE) for path in sorted(folder.rglob("*")) if path.suffix in SOUNDS]
        parts = [part for sound in sounds for part in sound.split(PIECE_S * SPEAKER_RATE, dim=1)]
        pieces[folder.name] = [part for part in parts if part.shape[1] >= SPEAKER_RATE]
    with evaluating(encoder):
        embedded = {name: torch.cat([encoder(x, l2_norm=True) for x in own]) for name, own in pieces.items()}
    found = {}
    for name in (*HELD_OUT["choosing"], *(folder.name for folder in config.real)):
        others = torch.cat([own for other, own in embedded.items() if other != name])
        figures = zip(("same", "different", "equal_error_rate"), separation(embedded[name], others), strict=True)
        found[name] = dict(figures)
    write_atomic(config.work / "speaker" / "gate.json", json.dumps(found, indent=1))
    print(f"speaker: {found}")
    return found


def load(work: Path) -> ResNetSpeakerEncoder:
    """The stage's result, or its last checkpoint while it is in training."""
    encoder, done = build_speaker_encoder(SHAPE), work / "speaker" / "speaker.safetensors"
    if done.is_file():
        encoder.load_state_dict(read_weights(done))
        return encoder.eval()
    with_norm(encoder).load_state_dict(torch.load(done.with_name("training.pt"), weights_only=True)["model"])
    return without_norm(encoder)


def draw(speech: Speech, rng: np.random.Generator, *, recorded_share: float) -> Tensor:
    """Two crops of each of `PAIRS` speakers, [2 * PAIRS, N], the second ones behind all first ones.

    Each voice at each speed is a speaker. A share of the crops sounds as if recorded anywhere.
    """
    names, spectra = list(speech.by_speaker), []
    speakers = rng.choice(len(names) * len(SPEEDS), size=PAIRS, replace=False)
    for voice, speed in [divmod(int(speaker), len(SPEEDS)) for speaker in (*speakers, *speakers)]:
        clip = speech.clips[int(rng.choice(speech.by_speaker[names[voice]]))]
        count = round(SAMPLES * SAMPLE_RATE / SPEAKER_RATE * SPEEDS[speed])
        sound = speech.sound(clip, int(rng.integers(max(1, clip.num_samples - count))), min(count, clip.num_samples))
        sound = sound.repeat(-(-count // len(sound)))[:count]
        # Fewer frequencies of a spectrum are fewer samples a second: resampling by Fourier's transform.
        spectra.append(torch.fft.rfft(sound)[: SAMPLES // 2 + 1] * (SAMPLES / count))
    stacked = torch.stack(spectra)
    anywhere = torch.from_numpy(rng.uniform(size=(len(spectra), 1)) < recorded_share)
    return torch.where(anywhere, recorded(stacked, rng), leveled(torch.fft.irfft(stacked, SAMPLES), rng))


def leveled(sound: Tensor, rng: np.random.Generator) -> Tensor:
    """Crops [B, N] with peaks of -26 to 0 dB."""
    peak = torch.from_numpy(10 ** rng.uniform(-1.3, 0, (len(sound), 1))).float()
    return sound / sound.abs().amax(1, keepdim=True).clamp(min=1e-4) * peak


def recorded(spectra: Tensor, rng: np.random.Generator) -> Tensor:
    """Spectra [B, K] to crops [B, N] in random rooms, through random microphones and bands, with random noise."""
    size = len(spectra)

    def uniform(low: float, high: float) -> Tensor:
        return torch.from_numpy(rng.uniform(low, high, (size, 1))).float()

    def noise() -> Tensor:
        return torch.from_numpy(rng.standard_normal((size, SAMPLES))).float()

    seconds, frequencies = torch.arange(SAMPLES) / SPEAKER_RATE, torch.linspace(0, SPEAKER_RATE / 2, SAMPLES // 2 + 1)
    # A room: reverberation decays by 60 dB in 0.1 to 0.8 s; half of the crops have next to none.
    strength = uniform(0.0, 0.15) * (uniform(0, 1) < 0.5)
    room = strength * noise() * torch.exp(-6.9 * seconds / uniform(0.1, 0.8))
    room[:, 0] = 1.0
    # A microphone: up to 6 dB an octave more or less, and the band's ends.
    octaves = (frequencies.clamp(min=50.0) / 1000).log2()
    gain = torch.exp(0.7 * uniform(-1, 1) * octaves)
    gain = gain * torch.sigmoid((frequencies - uniform(-100, 250)) / 20)
    gain = gain * torch.sigmoid((uniform(3000, 12_000) - frequencies) / 200)
    sound = torch.fft.irfft(spectra * torch.fft.rfft(room) * gain, SAMPLES)
    colored = torch.fft.irfft(torch.fft.rfft(noise()) * torch.exp(uniform(-0.7, 0.2) * octaves), SAMPLES)
    # Of another voice now and then.
    other = sound.roll(1, 0)
    disturbance = torch.where(uniform(0, 1) < 0.8, colored, other)
    level = sound.std(1, keepdim=True) / disturbance.std(1, keepdim=True).clamp(min=1e-6)
    sound = sound + level * 10 ** (-uniform(10, 50) / 20) * disturbance
    return leveled(sound, rng)


def separation(voice: Tensor, others: Tensor) -> tuple[float, float, float]:
    """How well one voice stands out: mean cosine within it, to the others, and the equal error rate.

    Args:
        voice: unit embeddings of clips of one voice, [n, E].
        others: unit embeddings of clips of other voices, [m, E].
    """
    cosines = voice @ voice.T
    same = cosines[torch.triu(torch.ones_like(cosines), diagonal=1).bool()]
    different = (voice @ others.T).flatten()
    thresholds = torch.cat([same, different]).sort().values
    # At the equal error threshold as many same pairs fall below it as different pairs lie above.
    refused = torch.searchsorted(same.sort().values, thresholds) / len(same)
    accepted = 1 - torch.searchsorted(different.sort().values, thresholds) / len(different)
    rate = torch.maximum(refused, accepted).min()
    return float(same.mean()), float(different.mean()), float(rate)


if __name__ == "__main__":
    main_of(SpeakerConfig, {"train": train, "measure": measure})
