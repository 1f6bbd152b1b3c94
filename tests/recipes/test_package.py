"""The packed base: small, listed, loadable, and refused when a file is not what it was."""

import json
import shutil
from pathlib import Path

import pytest
import soundfile
import torch

from recipes.starter import package as stage
from recipes.starter import quality
from recipes.starter.voices import GPT_VOICES
from tests.sounds import make_project
from utils.bases.find import find_base
from utils.config import ExportConfig, TrainConfig
from utils.dataset.storage.manifest import Clip, read_manifest, write_manifest
from utils.errors import UserError
from utils.inference.engine import Synthesizer
from utils.inference.export import export_model
from utils.model.weights import read_weights
from utils.project.paths import assets_folder
from utils.training.train import fine_tune

FILES = {"about.json", "config.json", "dvae.safetensors", "mel_stats.pth", "model.safetensors", "reference.wav",
         "speakers_xtts.pth", "vocab.json"}  # fmt: skip


@pytest.fixture(scope="module")
def packed(work: Path, tmp_path_factory) -> Path:
    return stage.package(work, tmp_path_factory.mktemp("assets") / "starter")


@pytest.fixture
def copy(packed: Path, tmp_path: Path) -> Path:
    shutil.copytree(packed, tmp_path / "starter")
    return tmp_path / "starter"


def test_the_package_is_whole_small_and_says_what_it_is(packed: Path) -> None:
    assert {path.name for path in packed.iterdir()} == FILES
    assert sum(path.stat().st_size for path in packed.iterdir()) <= stage.MAX_BYTES
    about = json.loads((packed / "about.json").read_text(encoding="utf-8"))
    assert set(about["files"]) == FILES - {"about.json"}
    assert all(about[key] for key in ("version", "license", "training_data", "recipe", "language"))
    assert about["gpt_checkpoint"] == "best-00000007"
    assert about["quality"] == {"dvae": {"explained_variance": 0.5}}
    weights = read_weights(packed / "model.safetensors")
    assert {tensor.dtype for name, tensor in weights.items() if name.startswith("gpt.")} == {torch.float16}
    assert weights["mel_stats"].dtype == torch.float32


def test_the_package_loads_and_speaks_with_each_of_its_voices(packed: Path) -> None:
    base = find_base(str(packed))
    assert base.can_speak
    synthesizer = Synthesizer(base)
    voices = synthesizer.speakers()
    assert list(voices) == [voice.name for voice in GPT_VOICES]
    wav = synthesizer.speak("Go.", language="en", voice=voices["adam"], seed=1)
    assert torch.isfinite(wav).all()
    assert wav.shape[1] > 1000


@pytest.mark.programs("espeak-ng")
def test_the_quality_table_has_the_base_and_its_ceiling(work: Path, packed: Path, tmp_path: Path) -> None:
    clips = read_manifest(work / "corpus" / "metadata_train.csv")[:2]
    texts = ["Go on.", "No."]
    write_manifest(
        work / "corpus" / "metadata_heldout.csv",
        [Clip(audio=clip.audio, text=text, speaker=clip.speaker) for clip, text in zip(clips, texts, strict=True)],
    )
    models = quality.evaluate(find_base(str(packed)), work, tmp_path, count=50)
    assert [(model.name, model.summary.sentences) for model in models] == [("starter", 2), ("ceiling", 2)]
    # The ceiling lasts as long as the recordings, whatever the weights: its codes are theirs.
    for clip, score in zip(clips, models[1].scores, strict=True):
        assert score.audio_s == pytest.approx(soundfile.info(clip.audio).duration, abs=0.15)
    assert all(score.cosine is not None for score in models[1].scores)


@pytest.mark.slow
def test_the_package_can_be_fine_tuned_and_exported(packed: Path, tmp_path: Path) -> None:
    project = make_project(tmp_path, num_train=2, num_eval=1)
    result = fine_tune(TrainConfig(project=project.name, output=tmp_path, base=str(packed), num_epochs=1))
    assert result.num_steps == 1
    ready = export_model(ExportConfig(project=project.name, output=tmp_path, decoder_steps=2))
    own = Synthesizer(find_base(str(ready)))
    assert own.decoder.waveform_decoder.conv_pre.in_channels == 256
    assert set(own.speakers()) == {*(voice.name for voice in GPT_VOICES), project.name}


@pytest.mark.parametrize("name", sorted(FILES - {"about.json"}))
def test_a_changed_file_is_refused_by_name(copy: Path, name: str) -> None:
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(UserError, match=f"{name} is not the file that this base was packed with"):
        find_base(str(copy))


def test_a_missing_file_is_refused_by_name(copy: Path) -> None:
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
def test_a_list_that_is_none_is_refused(copy: Path, change: dict, message: str) -> None:
    about = json.loads((copy / "about.json").read_text(encoding="utf-8"))
    (copy / "about.json").write_text(json.dumps(about | change), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        find_base(str(copy))


def test_the_starter_without_its_list_is_refused(copy: Path, monkeypatch) -> None:
    """Else it would be a base like any other, with settings that are XTTS v2's."""
    monkeypatch.setattr("utils.bases.catalog.assets_folder", lambda: copy.parent)
    assert find_base("starter").folder == copy
    (copy / "about.json").unlink()
    with pytest.raises(UserError, match="list of its files is missing"):
        find_base("starter")


def test_a_stage_that_is_missing_is_named_and_the_former_package_stays(work: Path, copy: Path, tmp_path: Path) -> None:
    unfinished = tmp_path / "work"
    shutil.copytree(work, unfinished, ignore=shutil.ignore_patterns("decoder.safetensors"))
    with pytest.raises(UserError, match="the decoder stage has not made"):
        stage.package(unfinished, copy)
    assert find_base(str(copy)).name == "starter"
    assert [path.name for path in copy.parent.iterdir() if path.name.startswith(".")] == []


def test_the_shipped_starter_is_what_was_packed() -> None:
    folder = assets_folder() / "starter"
    assert {path.name for path in folder.iterdir()} == FILES
    assert sum(path.stat().st_size for path in folder.iterdir()) <= stage.MAX_BYTES
    assert find_base("starter").can_speak
