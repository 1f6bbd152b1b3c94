"""Stage H: everything into one folder that the studio finds as base `starter`: assets/starter.

Weights are kept in 8 bits with a scale for each 64. Small tensors, the speaker encoder and the DVAE are float16: the
DVAE was before its codes were taken, so that they are those that the GPT learned.
"""

import json
import shutil
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recipes.base.gpt import CROP, make_config
from recipes.starter.corpus import read_manifest, read_wav
from recipes.starter.gpt import HEADS, LAYERS, WIDTH
from recipes.starter.latents import best_checkpoint
from recipes.starter.speakers import SHAPE as SPEAKER_SHAPE
from recipes.starter.vocoder import SHAPE as DECODER_SHAPE
from recipes.starter.voices import GPT_VOICES
from utils.audio.write import write_wav
from utils.bases.base import Base
from utils.bases.verify import write_about
from utils.errors import UserError
from utils.inference.engine import Synthesizer
from utils.model.dvae import needed_tensors
from utils.model.eight_bit import to_eight_bit
from utils.model.weights import read_weights, write_pickle, write_weights
from utils.model.xtts import SPEAKER_PREFIX, full_state
from utils.options import DATASET_RATE
from utils.project.paths import assets_folder
from utils.runs.checkpoints import load_checkpoint

VERSION = 5
MAX_BYTES = 20_000_000
REFERENCE_CLIPS = 3
"""Clips that make a reference voice; about ten seconds."""
ABOUT: dict[str, Any] = {
    "name": "starter",
    "kind": "starter",
    "version": VERSION,
    "language": "en",
    "license": "Apache-2.0",
    "description": "a small English base of XTTS's architecture, for teaching and testing; real voices need XTTS v2",
    "training_data": "self-made sentences and random words, common ones more often, spoken by espeak-ng 1.51 in 132 "
    "voices (for the decoder in 200 random ones as well); no recordings",
    "recipe": "recipes/starter; GPT and decoder were trained in more steps than one, see docs/quality.md",
    "loads_in": "this studio only: decoder and speaker encoder are narrower than stock coqui-tts can build",
    "training": {
        "learning_rate": 5e-5,
        "num_epochs": 4,
        "dvae_learning_rate": 3e-4,
        "dropout": 0.0,
        "crop": CROP,
        "conditioning": "other",
        "decoder_steps": 150,
    },
}


def run(work: Path) -> None:
    """Pack what the stages before have left, and say how large it is."""
    folder = package(work, assets_folder() / "starter")
    print(f"package: {sum(path.stat().st_size for path in folder.iterdir()) / 1e6:.1f} MB in {folder}")


def package(work: Path, folder: Path) -> Path:
    """Write the base to `folder`; what was there is replaced once the new one is whole and has been loaded.

    Raises:
        UserError: a stage has left nothing yet, parts do not fit together, or it is larger than 20 MB.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _fill(aside, work)
        size = sum(path.stat().st_size for path in aside.iterdir())
        if size > MAX_BYTES:
            raise UserError(what=f"the starter base has {size / 1e6:.1f} MB, more than {MAX_BYTES / 1e6:.0f}")
        aside.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        aside.replace(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return folder


def _fill(folder: Path, work: Path) -> None:
    """All files; about.json, which lists the others, comes last."""
    shutil.copyfile(made(work / "seed_base" / "vocab.json", "gpt"), folder / "vocab.json")
    dvae = read_weights(made(work / "dvae" / "dvae.safetensors", "dvae"))
    write_weights(folder / "dvae.safetensors", needed_tensors(dvae))
    shutil.copyfile(made(work / "dvae" / "mel_stats.pth", "dvae"), folder / "mel_stats.pth")
    (folder / "config.json").write_text(json.dumps(config(), indent=2) + "\n", encoding="utf-8")
    checkpoint = best_checkpoint(work)
    decoder = read_weights(made(work / "decoder" / "decoder.safetensors", "decoder"))
    mel_stats = Base(folder).mel_stats()
    write_weights(folder / "model.safetensors", stored(full_state(load_checkpoint(checkpoint), decoder, mel_stats)))
    _add_voices(folder, work)
    write_about(folder, {**ABOUT, "gpt_checkpoint": checkpoint.name, "quality": quality(work)})


def stored(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as they ship: in 8 bits, what that spares nothing or harms in float16, the mel scale in float32."""
    halved = {
        name: tensor.half() if tensor.is_floating_point() and name != "mel_stats" else tensor
        for name, tensor in state.items()
    }
    # Who sounds like whom is measured with the speaker encoder, and this is the only copy of it.
    return to_eight_bit(halved, exact=lambda name: name.startswith(SPEAKER_PREFIX))


def config() -> dict[str, Any]:
    """config.json: stock's keys, and `studio_decoder` for the sizes that stock fixes in code."""
    values = make_config(LAYERS, WIDTH, HEADS)
    values["model_args"]["d_vector_dim"] = SPEAKER_SHAPE.width
    values["studio_decoder"] = {
        "initial_channels": DECODER_SHAPE.initial_channels,
        "harmonic_source": DECODER_SHAPE.harmonic_source,
        "trunk_blocks": DECODER_SHAPE.trunk_blocks,
        "speaker_filters": list(DECODER_SHAPE.speaker_filters),
        "speaker_layers": list(DECODER_SHAPE.speaker_layers),
    }
    return values


def _add_voices(folder: Path, work: Path) -> None:
    """The recipe's voices as reference voices, made with the packed weights; the first is the base's own."""
    synthesizer, voices = Synthesizer(Base(folder)), {}
    rows = read_manifest(made(work / "corpus" / "metadata_train.csv", "corpus"))
    reference = folder / "reference.wav"
    for voice in reversed(GPT_VOICES):
        clips = list(islice((path for path, _, name in rows if name == voice.name), REFERENCE_CLIPS))
        write_wav(reference, torch.cat([read_wav(clip) for clip in clips], dim=1), DATASET_RATE)
        voices[voice.name] = synthesizer.voice(reference).as_speaker()
    write_pickle(folder / "speakers_xtts.pth", {voice.name: voices[voice.name] for voice in GPT_VOICES})


def quality(work: Path) -> dict[str, Any]:
    """What the stages measured of themselves."""
    found = {stage: work / stage / "quality.json" for stage in ("dvae", "speaker", "decoder")}
    return {stage: json.loads(path.read_text(encoding="utf-8")) for stage, path in found.items() if path.is_file()}


def made(path: Path, stage: str) -> Path:
    """The file that a stage leaves.

    Raises:
        UserError: it has not been run yet.
    """
    if not path.is_file():
        raise UserError(what=f"the {stage} stage has not made {path.name} yet", where=str(path), fix="run that stage")
    return path
