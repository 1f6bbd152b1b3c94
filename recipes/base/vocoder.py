"""Stage 2: the vocoder, on real mel spectrograms of the corpus; leaves `<work>/vocoder/vocoder.safetensors`.

python -m recipes.base.vocoder --work FOLDER
"""

import numpy as np
import torch
from torch import Tensor

from recipes.base.speech import Speech
from recipes.base.stage import StageConfig, main_of
from recipes.base.training import REFRESH_EVERY, half_precision, save_result, train_steps
from recipes.base.words import Judged, judge
from utils.codec_training.training_state import learning_rate_share, set_learning_rate
from utils.decoder_training.spectral import SpectralLoss
from utils.model.decoder.acoustic import HOP
from utils.model.decoder.vocos import SpectralVocoder
from utils.model.weights import read_weights
from utils.options import OUTPUT_RATE

STEPS, BATCH_SIZE, FRAMES = 8_000, 12, 48
MARGIN = 8
"""Frames at each end of a crop whose sound is not compared: their neighbors are missing."""
LEARNING_RATE, WARMUP = 8e-4, 200


class MelTarget:
    """Log-mel spectrograms of sounds at 24 000 Hz as the decoder predicts them: each in its frame's middle."""

    def __init__(self) -> None:
        self.losses = SpectralLoss(OUTPUT_RATE)

    def __call__(self, sound: Tensor) -> Tensor:
        """Sounds [B, 1, 256 T] to [B, 80, T]."""
        mel = self.losses.log_mel(torch.nn.functional.pad(sound, (0, HOP))[..., HOP // 2 :])
        return mel[..., : sound.shape[2] // HOP]


def train(config: StageConfig) -> None:
    """Train to the end, and measure the gate."""
    speech, target = Speech(config.work, "training"), MelTarget()
    torch.manual_seed(0)
    vocoder = SpectralVocoder()
    optimizer = torch.optim.AdamW(vocoder.parameters(), betas=(0.8, 0.99))
    inner = slice(MARGIN * HOP, (FRAMES - MARGIN) * HOP)

    def step(number: int) -> dict[str, float]:
        if number % REFRESH_EVERY == 0:
            speech.refresh()
        real = crops(speech, np.random.default_rng((2, number)), BATCH_SIZE, FRAMES * HOP)
        set_learning_rate(optimizer, LEARNING_RATE * learning_rate_share(number, steps=STEPS, warmup_steps=WARMUP))
        with half_precision():
            made = vocoder(target(real))
        losses = target.losses(made[..., inner], real[..., inner])
        optimizer.zero_grad()
        torch.stack(list(losses.values())).sum().backward()
        torch.nn.utils.clip_grad_norm_(vocoder.parameters(), 5.0)
        optimizer.step()
        return {name: loss.item() for name, loss in losses.items()}

    train_steps("vocoder", config.work, STEPS, {"model": vocoder, "optimizer": optimizer}, step)
    save_result(config.work / "vocoder" / "vocoder.safetensors", vocoder)
    measure(config)


def measure(config: StageConfig) -> Judged:
    """Words of the choosing set through real mels and the vocoder as it is now."""
    vocoder, target = load(config), MelTarget()
    return judge(config, "vocoder", lambda speech, clip: vocoder(target(whole_frames(speech.sound(clip))))[0])


def load(config: StageConfig) -> SpectralVocoder:
    """The stage's result, or its last checkpoint while it is in training."""
    vocoder, done = SpectralVocoder(), config.work / "vocoder" / "vocoder.safetensors"
    checkpoint = done.with_name("training.pt")
    state = read_weights(done) if done.is_file() else torch.load(checkpoint, weights_only=True)["model"]
    vocoder.load_state_dict(state)
    return vocoder.eval()


def crops(speech: Speech, rng: np.random.Generator, count: int, samples: int) -> Tensor:
    """Random stretches of random clips at 24 000 Hz, [count, 1, samples]; silence follows short clips."""
    found = []
    for index in rng.integers(len(speech), size=count):
        clip = speech.clips[index]
        found.append(speech.sound(clip, int(rng.integers(max(1, clip.num_samples - samples))), samples))
    return torch.stack(found)[:, None]


def whole_frames(sound: Tensor) -> Tensor:
    """A sound [N] with zeros up to a whole frame, [1, 1, 256 T]."""
    return torch.nn.functional.pad(sound, (0, -len(sound) % HOP))[None, None]


if __name__ == "__main__":
    main_of(StageConfig, {"train": train, "measure": measure})
