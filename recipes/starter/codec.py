"""Stage B: train the DVAE on a random part of the corpus; leaves `work/dvae/dvae.safetensors` and quality.json."""

import dataclasses
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from torch import Tensor
from TTS.tts.layers.xtts.dvae import DiscreteVAE

from recipes.starter.corpus import read_manifest, read_wav, sample_of
from utils.codec_training.dvae import (
    DvaeShape,
    DvaeTraining,
    MelCorpus,
    evaluate_dvae,
    load_dvae,
    new_dvae,
    save_dvae,
    train_dvae,
)

SHAPE = DvaeShape()
SETTINGS = DvaeTraining()
TRAINING_CLIPS = 6000


def run(work: Path) -> None:
    """Train to the end of SETTINGS, measure on all held-out clips, save and draw."""
    folder = work / "dvae"
    mels = mel_corpus(work / "corpus" / "metadata_train.csv", folder / "mels_train", clips=TRAINING_CLIPS)
    eval_mels = mel_corpus(work / "corpus" / "metadata_eval.csv", folder / "mels_eval")
    torch.manual_seed(SETTINGS.seed)
    dvae, mel_stats = new_dvae(SHAPE), mels.stats()
    train_dvae(dvae, mels, mel_stats=mel_stats, settings=SETTINGS, folder=folder, eval_mels=eval_mels)
    save_dvae(folder, dvae, mel_stats)
    dvae, mel_stats = load_dvae(folder)
    quality = dataclasses.asdict(evaluate_dvae(dvae, eval_mels, mel_stats, max_clips=len(eval_mels)))
    quality |= {"steps": SETTINGS.steps, "parameters": sum(p.numel() for p in dvae.parameters())}
    (folder / "quality.json").write_text(json.dumps(quality, indent=2), encoding="utf-8")
    draw(dvae, eval_mels, mel_stats, folder / "reconstruction.png")
    print(f"dvae: {quality}")


def mel_corpus(manifest: Path, folder: Path, *, clips: int = 1_000_000) -> MelCorpus:
    """Log-mels of at most `clips` clips of a manifest, made once."""
    if not (folder / "lengths.npy").is_file():
        paths = sample_of([path for path, _, _ in read_manifest(manifest)], clips, seed=1)
        MelCorpus.build((read_wav(path) for path in paths), folder)
        print(f"dvae: mels of {len(paths)} clips from {manifest.name}", flush=True)
    return MelCorpus(folder)


@torch.no_grad()
def draw(dvae: DiscreteVAE, mels: MelCorpus, mel_stats: Tensor, path: Path, *, clips: int = 4) -> None:
    """Original above reconstruction for a few clips of different speakers."""
    figure, axes = plt.subplots(2 * clips, 1, figsize=(12, 3 * clips), constrained_layout=True)
    for number in range(clips):
        mel = mels.clip(number) / mel_stats[:, None]
        made, _ = dvae.decode(dvae.get_codebook_indices(mel))
        for row, (title, picture) in enumerate({"original": mel, "through the codes": made}.items()):
            axis = axes[2 * number + row]
            axis.imshow((picture * mel_stats[:, None])[0], origin="lower", aspect="auto", vmin=-11.5, vmax=1)
            axis.set_title(title, fontsize=8)
    figure.savefig(path, dpi=70)
    plt.close(figure)
