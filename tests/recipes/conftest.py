"""What the starter recipe's stages leave, with untrained parts in the real formats: made once, in seconds."""

import json
from pathlib import Path

import pytest
import torch

from recipes.starter import gpt as gpt_stage
from recipes.starter.vocoder import SHAPE as DECODER_SHAPE
from recipes.starter.voices import GPT_VOICES
from tests.saving import save_best
from tests.sounds import speech
from utils.audio.write import write_wav
from utils.bases.base import Base
from utils.bases.loading import load_gpt
from utils.codec_training.dvae import DvaeShape, new_dvae, save_dvae
from utils.dataset.storage.manifest import Clip, write_manifest
from utils.model.decoder.build import build_decoder
from utils.model.weights import write_weights
from utils.options import DATASET_RATE
from utils.runs.checkpoints import Checkpoints


@pytest.fixture(scope="session")
def work(tmp_path_factory) -> Path:
    """A work folder as after the decoder stage: the real sizes, random weights."""
    work = tmp_path_factory.mktemp("starter")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        (work / "dvae").mkdir()
        save_dvae(work / "dvae", new_dvae(DvaeShape()), torch.full((80,), 5.0))
        (work / "dvae" / "quality.json").write_text(json.dumps({"explained_variance": 0.5}), encoding="utf-8")
        gpt_stage.make_seed_base(work, work / "seed_base")
        base = Base(work / "seed_base")
        checkpoints = Checkpoints(work / "gpt" / "runs" / "one" / "checkpoints")
        save_best(checkpoints, 7, load_gpt(base), {})
        (work / "decoder").mkdir()
        write_weights(work / "decoder" / "decoder.safetensors", build_decoder(DECODER_SHAPE).state_dict())
    _corpus(work / "corpus")
    return work


def _corpus(folder: Path) -> None:
    """A clip of speech-like sound for each voice."""
    clips = []
    for number, voice in enumerate(GPT_VOICES):
        path = folder / "wavs" / f"{voice.name}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_wav(path, speech(2.2, seed=number), DATASET_RATE)
        clips.append(Clip(audio=path, text="Good morning.", speaker=voice.name))
    write_manifest(folder / "metadata_train.csv", clips)
