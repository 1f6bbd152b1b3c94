"""A model folder as an export leaves it, and a recording."""

import shutil

import pytest
import torch

from utils.audio.write import write_wav
from utils.bases.find import find_base
from utils.bases.tiny import babble


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory):
    """The tiny base with its weights in model.pth, as stock wants them."""
    folder = tmp_path_factory.mktemp("model")
    base = find_base("tiny")
    for name in ("config.json", "vocab.json", "speakers_xtts.pth"):
        shutil.copyfile(base.folder / name, folder / name)
    torch.save({"model": base.state()}, folder / "model.pth")
    return folder


@pytest.fixture(scope="session")
def demo_clip(tmp_path_factory):
    """Seven seconds of speech-like sound."""
    path = tmp_path_factory.mktemp("audio") / "reference.wav"
    write_wav(path, babble(seconds=7), 22_050)
    return path
