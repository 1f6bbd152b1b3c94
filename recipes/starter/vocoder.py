"""Stage G: the decoder, trained on the GPT's latents; leaves `work/decoder/decoder.safetensors` and quality.json.

The first examples may come from a GPT that is still in training. When a later checkpoint has made new ones, running the
stage again refines the same decoder on them: a GPT's thoughts drift while it trains, and most of the work is done.
"""

import dataclasses
import json
from pathlib import Path
from typing import cast

import numpy as np
import soundfile
import torch
from TTS.tts.layers.xtts.hifigan_decoder import HifiDecoder

from recipes.starter.latents import examples_folder, load_training_examples
from recipes.starter.speakers import SHAPE as SPEAKER_SHAPE
from utils.decoder_training.balance import balance
from utils.decoder_training.decoder import decode, train_decoder
from utils.decoder_training.decoder_clips import DecoderClips, DecoderTraining
from utils.decoder_training.spectral import SpectralLoss
from utils.model.decoder.build import build_decoder
from utils.model.shapes import DecoderShape
from utils.model.weights import read_weights, write_weights
from utils.options import OUTPUT_RATE

LATENT_WIDTH = 256
SHAPE = DecoderShape(
    latent_width=LATENT_WIDTH,
    speaker_width=SPEAKER_SHAPE.width,
    initial_channels=96,
    speaker_filters=SPEAKER_SHAPE.filters,
    speaker_layers=SPEAKER_SHAPE.layers,
    harmonic_source=True,
    trunk_blocks=4,
)
SETTINGS = DecoderTraining(steps=5000, trunk_steps=2000, crop_latents=10, speaker_noise=0.1)
"""Crops of 0.46 s: 1.1 s of one core a step, against 1.9 s at twice the length. No adversarial part: 1.8 h in all."""
REFINING_STEPS = 800
HELD_OUT_EVERY = 40
"""Every fortieth clip is kept for the measurement."""
BALANCE_EVERY = 20
"""Every twentieth of the others is enough to balance the bands."""


def run(work: Path) -> None:
    """Train to the end of the plan, measure on clips that were kept back, save, and leave some to listen to."""
    folder, examples = work / "decoder", load_training_examples(work)
    folder.mkdir(parents=True, exist_ok=True)
    settings = plan(folder, examples_folder(work).name)
    torch.manual_seed(SETTINGS.seed)
    decoder = cast(HifiDecoder, build_decoder(SHAPE))
    decoder.speaker_encoder.load_state_dict(read_weights(work / "speaker" / "speaker.safetensors"))
    learned = [clip for number, clip in enumerate(examples) if number % HELD_OUT_EVERY]
    train_decoder(decoder, learned, settings=settings, folder=folder)
    balance(decoder, learned[::BALANCE_EVERY])
    write_weights(folder / "decoder.safetensors", decoder.state_dict())
    plain = dataclasses.replace(SETTINGS, speaker_noise=0.0)
    quality: dict[str, float] = measure_decoder(decoder, DecoderClips(examples[::HELD_OUT_EVERY], plain), folder)
    quality |= {"trunk_steps": settings.trunk_steps, "steps": settings.steps}
    quality["parameters"] = sum(parameter.numel() for parameter in decoder.waveform_decoder.parameters())
    (folder / "quality.json").write_text(json.dumps(quality, indent=2), encoding="utf-8")
    print(f"decoder: {quality}")


def plan(folder: Path, taught_by: str) -> DecoderTraining:
    """Settings up to the last step of all examples so far.

    Args:
        folder: keeps plan.json: who taught, and up to which step.
        taught_by: the GPT checkpoint that made the examples; a new one adds REFINING_STEPS to a decoder that was done.
    """
    path = folder / "plan.json"
    former = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    steps = former.get("steps", SETTINGS.steps)
    was_done = (folder / "decoder.safetensors").is_file()
    if was_done and former.get("taught_by") != taught_by:
        steps += REFINING_STEPS
        # Until the refined one is written there is none that is done: after a stop in between, this plan is resumed.
        (folder / "decoder.safetensors").rename(folder / "decoder_before.safetensors")
    path.write_text(json.dumps({"taught_by": taught_by, "steps": steps}), encoding="utf-8")
    return dataclasses.replace(SETTINGS, steps=steps)


@torch.no_grad()
def measure_decoder(decoder: HifiDecoder, clips: DecoderClips, folder: Path, *, crops: int = 24) -> dict[str, float]:
    """Mean losses on crops of held-out clips; four pairs of recording and decoded sound go to `folder`."""
    latents, speakers, sound = clips.batch(crops, np.random.default_rng(1))
    made = decode(decoder, latents, speakers)
    for number in range(4):
        soundfile.write(folder / f"sample_{number}_real.wav", sound[number, 0].numpy(), OUTPUT_RATE)
        soundfile.write(folder / f"sample_{number}_made.wav", made[number, 0].numpy(), OUTPUT_RATE)
    losses = SpectralLoss(OUTPUT_RATE)(made, sound[..., : made.shape[2]])
    return {name: round(loss.item(), 4) for name, loss in losses.items()}
