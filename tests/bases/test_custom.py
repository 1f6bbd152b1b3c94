"""A model of another program is trained from its folder, with what it lacks from the base of a version."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from utils.bases.base import Base
from utils.bases.custom import whole_model
from utils.bases.find import find_base


@pytest.fixture
def foreign(tmp_path) -> Path:
    """What other programs keep of a model: no DVAE, no mel_stats, no about.json."""
    folder = tmp_path / "their model"
    folder.mkdir()
    for name in ("config.json", "vocab.json", "model.safetensors"):
        shutil.copy(find_base("starter").folder / name, folder)
    return folder


@pytest.mark.parametrize("name", ["", "model.safetensors", "best_model_99.safetensors"])
def test_a_model_is_its_folder_and_missing_parts_are_the_versions(foreign, tmp_path, name):
    if name.startswith("best"):
        (foreign / "model.safetensors").rename(foreign / name)
    found, missing = whole_model(str(foreign / name), "starter", tmp_path / "voice")
    model, starter = find_base(found), find_base("starter")
    assert missing == ["speakers_xtts.pth", "mel_stats.pth", "reference.wav", "dvae"]
    assert Path(found).parent == tmp_path / "voice" and model.name == "their model"
    assert model.dvae == starter.dvae and torch.equal(model.mel_stats(), starter.mel_stats())
    assert model.weights.read_bytes() == starter.weights.read_bytes()
    assert (model.defaults, model.license) == (starter.defaults, starter.license)
    assert whole_model(str(foreign / name), "starter", tmp_path / "voice")[0] == found
    assert sorted(path.name for path in foreign.iterdir()) == sorted(
        ["config.json", "vocab.json", name or "model.safetensors"]
    )


def test_a_whole_model_and_a_missing_one_are_taken_as_given(foreign, tmp_path):
    for name in ("starter", str(tmp_path / "none.pth"), str(find_base("starter").folder)):
        assert whole_model(name, "starter", tmp_path) == (name, [])
    about = {"base": find_base("starter").as_origin(foreign)}
    (foreign / "about.json").write_text(json.dumps(about))
    assert whole_model(str(foreign / "model.safetensors"), "", tmp_path) == (str(foreign), [])
    assert Base(foreign).dvae == find_base("starter").dvae
