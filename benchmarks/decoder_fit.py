"""What fitting stock's HiFi-GAN to a voice brings and costs: python -m benchmarks.decoder_fit --help.

XTTS v2's weights cannot be had everywhere, so a decoder of stock's kind, narrower, first learns the starter's corpus
(the recipe's work folder is needed: `make starter`). Then it is fitted to the bundled voice, which it never heard, with
and without the discriminators, and clips that nobody trained on are compared. The cost of stock's full width is
measured with random weights.

Writes benchmarks/results/decoder_fit.json.
"""

import json
import logging
import resource
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import soundfile
import torch
import tyro
from TTS.tts.layers.xtts.hifigan_decoder import HifiDecoder

from recipes.base.decoder import examples as recipe_examples
from utils.bases.base import Base
from utils.bases.find import find_base
from utils.dataset.build import prepare
from utils.dataset.settings import PrepareConfig
from utils.dataset.storage.manifest import read_manifest
from utils.decoder_training import tune
from utils.decoder_training.decoder import train_decoder
from utils.decoder_training.decoder_clips import SAMPLES_PER_LATENT, DecoderClip, DecoderTraining
from utils.decoder_training.tune import HIFIGAN, ClipFidelity, clip_fidelity, tune_decoder
from utils.hardware.processor import cpu
from utils.inference.engine import Synthesizer
from utils.model.decoder.build import build_decoder
from utils.model.shapes import DecoderShape
from utils.model.weights import part, write_pickle
from utils.model.xtts import DECODER_PREFIX, SPEAKER_PREFIX
from utils.options import OUTPUT_RATE
from utils.project.paths import assets_folder, open_project

RESULTS = Path(__file__).resolve().parent / "results" / "decoder_fit.json"
HELD_OUT_EVERY = 20
"""Of the recipe's examples, one in so many measures and does not train."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure."""

    recipe: Path = Path("~/.cache/xtts-finetuning-studio/starter")
    """The recipe's work folder, with its latents."""
    work: Path = Path("~/.cache/xtts-finetuning-studio/decoder_fit")
    """Folder for the decoder and the dataset; a stopped run goes on there."""
    channels: int = 128
    """Of the narrow decoder before the first upsampling; stock's has 512."""
    base_steps: int = 2000
    """Steps in which it learns the corpus."""
    fit_steps: tuple[int, ...] = (150, 500)
    """Steps in which it is fitted to the voice."""
    fit_batch_size: int = 16
    """Crops in one of them; with HiFi-GAN's discriminators a core takes 2 s and more a crop."""
    full_width_steps: int = 3
    """Steps that are timed at stock's width."""
    out: Path = RESULTS
    """Results file."""


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    settings = tyro.cli(Settings, description=__doc__)
    work = settings.work.expanduser()
    work.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"benchmark": "decoder_fit", "processor": cpu().model, "torch": torch.__version__}
    record["base"] = train_base(settings, work)
    record["fits"] = [
        fit(work, steps, settings.fit_batch_size, with_critic=critic)
        for steps in settings.fit_steps
        for critic in (False, True)
    ]
    record["full_width"] = full_width(work, settings.full_width_steps)
    settings.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))


def narrow_shape(channels: int) -> DecoderShape:
    """The starter's, but with stock's kind of generator."""
    return replace(
        find_base("starter").decoder_shape(), initial_channels=channels, harmonic_source=False, trunk_blocks=0
    )


def train_base(settings: Settings, work: Path) -> dict[str, Any]:
    """The narrow decoder's training on the corpus, and a base that has it in work/base."""
    starter, shape = find_base("starter"), narrow_shape(settings.channels)
    decoder = cast(HifiDecoder, build_decoder(shape))
    decoder.speaker_encoder.load_state_dict(part(starter.state(), SPEAKER_PREFIX))
    examples = recipe_examples(settings.recipe.expanduser())
    learns = [clip for number, clip in enumerate(examples) if number % HELD_OUT_EVERY]
    how = DecoderTraining(
        steps=settings.base_steps, crop_latents=10, speaker_noise=0.1, log_every=50, adversarial_from=None
    )
    train_decoder(decoder, learns, settings=how, folder=work)
    decoder.requires_grad_(False)
    folder = work / "base"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(starter.folder, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["studio_decoder"] |= {"initial_channels": settings.channels, "harmonic_source": False, "trunk_blocks": 0}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    others = {name: tensor for name, tensor in starter.state().items() if not name.startswith(DECODER_PREFIX)}
    own = {f"{DECODER_PREFIX}{name}": tensor for name, tensor in decoder.state_dict().items()}
    for model in folder.glob("model.*"):
        model.unlink()
    write_pickle(folder / "model.pth", {"model": others | own})
    return {
        "parameters": sum(parameter.numel() for parameter in decoder.waveform_decoder.parameters()),
        "steps": settings.base_steps,
        "known_voices": _values(clip_fidelity(decoder, examples[::HELD_OUT_EVERY])),
    }


def fit(work: Path, steps: int, batch_size: int, *, with_critic: bool) -> dict[str, Any]:
    """The narrow decoder fitted to the bundled voice."""
    base, output = Base(work / "base"), work / "output"
    project = open_project("voice", output)
    if not project.train_csv.is_file():
        prepare(
            PrepareConfig(
                project="voice", input=assets_folder() / "demo_voice", language="en", output=output, base="starter"
            )
        )
    clips, eval_clips = read_manifest(project.train_csv), read_manifest(project.eval_csv)
    synthesizer = Synthesizer(base)
    former = tune.HIFIGAN
    how = replace(HIFIGAN.settings, batch_size=batch_size)
    if not with_critic:
        how = replace(how, critic="spectral", adversarial_weight=0.1, feature_weight=0.1)
    tune.HIFIGAN = HIFIGAN._replace(settings=how)
    began, processor = time.monotonic(), time.process_time()
    try:
        found = tune_decoder(
            base,
            synthesizer.gpt,
            synthesizer.voice(max(clips, key=lambda clip: clip.audio.stat().st_size).audio),
            clips,
            eval_clips,
            language="en",
            steps=steps,
            folder=work / f"fit-{steps}-{int(with_critic)}",
        )
    finally:
        tune.HIFIGAN = former
    return {
        "steps": steps,
        "batch_size": batch_size,
        "discriminators": "HiFi-GAN's" if with_critic else "of spectra, narrow",
        "before": _values(found.before),
        "after": _values(found.after),
        "kept": found.is_better,
        "seconds": round(time.monotonic() - began, 1),
        "processor_seconds": round(time.process_time() - processor, 1),
    }


def full_width(work: Path, steps: int) -> dict[str, Any]:
    """Seconds a step and memory at stock's width, random weights and random clips."""
    shape = DecoderShape(latent_width=1024)
    decoder = cast(HifiDecoder, build_decoder(shape))
    how = replace(HIFIGAN.settings, steps=steps, adversarial_from=0, checkpoint_every=10**9, log_every=10**9)
    folder = work / "full_width"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    length = 2 * (how.crop_latents + 2 * how.margin_latents)
    np.save(folder / "clip.npy", np.random.default_rng(1).standard_normal((length, 1024)).astype(np.float32))
    noise = np.random.default_rng(2).standard_normal(int(length * SAMPLES_PER_LATENT))
    soundfile.write(folder / "clip.wav", 0.1 * noise, OUTPUT_RATE)
    clip = DecoderClip(latents=folder / "clip.npy", wav=folder / "clip.wav", speaker=torch.randn(shape.speaker_width))
    began, processor = time.monotonic(), time.process_time()
    train_decoder(decoder, [clip], settings=how, folder=folder)
    shutil.rmtree(folder)
    return {
        "batch_size": how.batch_size,
        "seconds_a_step": round((time.monotonic() - began) / steps, 1),
        "processor_seconds_a_step": round((time.process_time() - processor) / steps, 1),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 1),
        "threads": torch.get_num_threads(),
    }


def _values(fidelity: ClipFidelity) -> dict[str, float]:
    return {"mel_distance": round(fidelity.mel_distance, 4), "similarity": round(fidelity.similarity, 4)}


if __name__ == "__main__":
    main()
