"""The base that ships: small, listed, loadable, and refused when a file is not what it was."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from tests.decoding import said
from utils.bases.base import Base
from utils.bases.find import find_base, run_base
from utils.errors import UserError
from utils.inference.engine import Synthesizer
from utils.project.paths import assets_folder

FILES = {"NOTICE", "about.json", "config.json", "dvae.safetensors", "mel_stats.pth", "model.safetensors",
         "reference.wav", "speakers_xtts.pth", "vocab.json"}  # fmt: skip
SHIPPED = assets_folder() / "starter"
VOICES = ["heart", "bella", "michael", "emma", "george", "fable"]


def _rewrite(path: Path, content: bytes) -> None:
    path.unlink()  # a link to the file that ships
    path.write_bytes(content)


@pytest.fixture
def copy(tmp_path) -> Path:
    shutil.copytree(SHIPPED, tmp_path / "starter", copy_function=os.symlink)
    return tmp_path / "starter"


def test_it_is_whole_and_small_and_says_what_it_is():
    assert {path.name for path in SHIPPED.iterdir()} == FILES
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) <= 28_000_000
    about = json.loads((SHIPPED / "about.json").read_text(encoding="utf-8"))
    assert set(about["files"]) == FILES - {"about.json"}
    assert all(about[key] for key in ("version", "license", "training_data", "recipe", "language"))
    assert about["quality"]["decoder"]["made"]["wer"] <= 0.1, "the gate of true codes"


def test_it_speaks_with_each_of_its_voices():
    synthesizer = Synthesizer(find_base("starter"))
    voices = synthesizer.speakers()
    assert list(voices) == VOICES
    wav = said(synthesizer, "Go.", voice=voices["heart"], seed=1)
    assert torch.isfinite(wav).all() and wav.shape[1] > 1000


@pytest.mark.parametrize("name", sorted(FILES - {"about.json"}))
def test_a_changed_file_is_refused_by_name(copy, name):
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    _rewrite(copy / name, content)
    with pytest.raises(UserError, match=f"{name} is not the file that this base was packed with"):
        find_base(str(copy))


def test_a_missing_file_is_refused_by_name(copy):
    (copy / "dvae.safetensors").unlink()
    with pytest.raises(UserError, match=r"dvae\.safetensors is missing"):
        find_base(str(copy))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 3}, "has layout 3; this version reads 1 to 2"),
        ({"format": "1"}, "has layout '1'; this version reads 1 to 2"),
        ({"files": ["model.safetensors"]}, "no usable list of files"),
        ({"files": {"../secret": "0"}}, "no usable list of files"),
        ({"files": {}}, "no usable list of files"),
    ],
)
def test_a_list_that_is_none_is_refused(copy, change, message):
    about = json.loads((copy / "about.json").read_text(encoding="utf-8"))
    _rewrite(copy / "about.json", json.dumps(about | change).encode())
    with pytest.raises(UserError, match=message):
        find_base(str(copy))


def test_the_starter_without_its_list_is_refused(copy, monkeypatch):
    """Else it would be a base like any other, with settings that are XTTS v2's."""
    monkeypatch.setattr("utils.bases.catalog.assets_folder", lambda: copy.parent)
    assert find_base("starter").folder == copy
    (copy / "about.json").unlink()
    with pytest.raises(UserError, match="list of its files is missing"):
        find_base("starter")


def test_what_the_former_starter_made_is_refused_by_its_version(tmp_path):
    """Its codes were others: a run or model would speak noise, and train towards it."""
    run, model = tmp_path / "voice" / "runs" / "old", tmp_path / "voice" / "ready"
    run.mkdir(parents=True)
    model.mkdir()
    starter = find_base("starter")
    record = {"name": "starter", "folder": str(SHIPPED)}
    (run / "base.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(UserError, match=r"run old was made from version 5 of base starter, and this is version 6"):
        run_base(run)
    (run / "base.json").write_text(json.dumps(record | {"version": 6}), encoding="utf-8")
    assert run_base(run).folder == run_base(run, starter).folder == SHIPPED
    (model / "about.json").write_text(json.dumps({"base": record}), encoding="utf-8")
    with pytest.raises(UserError, match=r"the model was made from version 5"):
        _ = Base(model).dvae
    (model / "about.json").write_text(json.dumps({"base": starter.as_origin(model)}), encoding="utf-8")
    assert Base(model).dvae == starter.dvae
