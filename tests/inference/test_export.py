"""Exported models: complete, loadable by stock, usable as a base; the former export survives a failure."""

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.configs import tiny_run
from tests.decoding import greedy
from tests.inference.stock import load_stock, stock_greedy, stock_sound
from tests.sounds import make_project
from utils.audio.write import write_wav
from utils.bases.base import Base
from utils.bases.find import find_base
from utils.config import ExportConfig, TrainConfig
from utils.dataset.storage.manifest import read_manifest, write_manifest
from utils.errors import UserError
from utils.inference import export as export_module
from utils.inference.engine import Synthesizer
from utils.inference.export import OURS, READY_FILES, STOCK, export_model, loads_in, write_voice_file
from utils.inference.speaker import Speaker
from utils.model.weights import read_weights
from utils.options import LORA_RANK
from utils.project.paths import Project
from utils.runs.layout import VOICE_FILE
from utils.training.train import fine_tune


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Project:
    project = make_project(tmp_path_factory.mktemp("output"))
    fine_tune(tiny_run(project, num_epochs=1))
    return project


@pytest.fixture(scope="module")
def ready(trained) -> Path:
    return export_model(config_of(trained))


@pytest.fixture
def project(trained, tmp_path) -> Project:
    shutil.copytree(trained.folder, tmp_path / trained.name, ignore=shutil.ignore_patterns("ready"))
    return Project(name=trained.name, output=tmp_path)


def config_of(project: Project, **settings) -> ExportConfig:
    return ExportConfig(project=project.name, output=project.output, **settings)


def test_stock_loads_the_export_and_speaks_the_same(trained, ready):
    assert {path.name for path in ready.iterdir()} == set(READY_FILES)
    ours, stock = Synthesizer(Base(ready)), load_stock(ready)
    stock.gpt.max_gen_mel_tokens = 20
    voice = ours.default_voice()
    tokens = ours.tokenizer.encode("Still waters run deep.", "en")
    said, hidden = greedy(ours.gpt, voice.latents, tokens, limit=20)
    codes, latents = stock_greedy(stock, tokens, voice, repetition_penalty=2.0)
    assert said.tolist() == codes.tolist()
    assert (ours.vocoder(hidden, voice.embedding) - stock_sound(stock, latents, voice)).abs().max() < 1e-4
    assert set(stock.speaker_manager.speakers) == {"Tiny One", "Tiny Two", trained.name}
    entry = stock.speaker_manager.speakers[trained.name]
    assert torch.allclose(entry["gpt_cond_latent"], voice.latents) and entry["speaker_embedding"].shape == (1, 512, 1)


def test_an_export_says_which_software_can_load_it(ready, tmp_path):
    assert json.loads((ready / "about.json").read_text(encoding="utf-8"))["loads_in"] == STOCK
    starter = find_base("starter")
    assert loads_in(starter) == starter.about["loads_in"] and "this studio only" in loads_in(starter)
    for name in ("config.json", "vocab.json"):
        shutil.copyfile(starter.folder / name, tmp_path / name)
    assert loads_in(Base(tmp_path)) == OURS


def test_each_speaker_of_a_dataset_becomes_a_voice(project, monkeypatch, caplog):
    clips = read_manifest(project.train_csv)
    names = ["anna", "ben", "anna", "ben", "eve", "default"]
    named = [replace(clip, speaker=name) for clip, name in zip(clips, names, strict=True)]
    write_manifest(project.train_csv, named)
    for clip in named[4:5]:
        write_wav(clip.audio, torch.zeros(1, 22_050), 22_050)
    speaker = Speaker(export_model(config_of(project)), device="cpu", precision="fp32")
    assert speaker.voices == sorted(["Tiny One", "Tiny Two", "anna", "ben", project.name]), "eve's clip is silent"
    assert "speaker 'default': that name asks for the model's own voice" in caplog.text
    longest = max((clip for clip in named if clip.speaker == "ben"), key=lambda clip: clip.audio.stat().st_size)
    assert torch.allclose(speaker.voice("ben").latents, speaker.voice(longest.audio).latents, atol=1e-5)
    monkeypatch.setattr(export_module, "MOST_SPEAKERS", 2)
    assert len(export_module._longest_clips(project.train_csv)) == 2
    assert "reference voices of 2 of 4 speakers" in caplog.text
    project.train_csv.write_bytes(b"\xff")
    assert Speaker(export_model(config_of(project)), device="cpu").voices == ["Tiny One", "Tiny Two", project.name]


def test_the_export_holds_the_trained_weights_and_says_where_they_come_from(trained, ready):
    run = next(trained.runs.iterdir())
    best = read_weights(next(run.glob("checkpoints/best-*")) / "model.safetensors")
    assert torch.equal(Base(ready).state()["gpt.mel_head.weight"], best["mel_head.weight"])
    assert not torch.equal(best["mel_head.weight"], find_base("tiny").state()["gpt.mel_head.weight"])
    about = json.loads((ready / "about.json").read_text())
    assert (about["language"], about["base"]["name"], about["run"]) == ("en", "tiny", run.name)
    assert str(Path.home()) not in (ready / "about.json").read_text() and "/" not in about["base"]["folder"]
    assert Base(ready).dvae == find_base("tiny").dvae, "it is found by its name"


def test_an_export_is_a_base_for_further_training(trained, ready, tmp_path):
    result = fine_tune(
        TrainConfig(project="more", output=tmp_path, base=str(ready), language="en", num_epochs=1,
                    train_csv=trained.train_csv, eval_csv=trained.eval_csv)
    )  # fmt: skip
    first = next(trained.runs.iterdir())
    assert result.first_loss < json.loads(next(first.glob("checkpoints/step-*/state.json")).read_text())["first_loss"]


def test_newest_and_named_runs(project):
    older = next(project.runs.iterdir())
    shutil.copytree(older, project.runs / "99990101-000000-1")
    (project.runs / "99990101-000001-1").mkdir()
    assert json.loads((export_model(config_of(project)) / "about.json").read_text())["run"] == "99990101-000000-1"
    named = export_model(config_of(project, run=older.name))
    assert json.loads((named / "about.json").read_text())["run"] == older.name
    with pytest.raises(UserError, match="has no run 'nothing'"):
        export_model(config_of(project, run="nothing"))


def test_a_full_disk_keeps_the_former_export(project, monkeypatch):
    ready = export_model(config_of(project))
    before = {path.name: path.stat().st_mtime_ns for path in ready.iterdir()}

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(export_module, "write_pickle", full)
    with pytest.raises(UserError, match="disk is full"):
        export_model(config_of(project))
    assert {path.name: path.stat().st_mtime_ns for path in ready.iterdir()} == before
    assert sorted(path.name for path in project.folder.iterdir()) == ["dataset", "ready", "runs"]


def test_what_is_missing_is_named(project, tmp_path):
    with pytest.raises(UserError, match="no trained run"):
        export_model(ExportConfig(project="missing", output=tmp_path))
    run = next(project.runs.iterdir())
    (run / "base.json").write_text(json.dumps({"name": "gone", "folder": str(tmp_path / "gone")}))
    with pytest.raises(UserError, match="base gone is gone"):
        export_model(config_of(project))


def test_a_voice_of_the_recommended_rank_takes_30_mb_at_full_size(tmp_path):
    width, sizes = 1024, {"attn.c_attn": (1, 3), "attn.c_proj": (1, 1), "mlp.c_fc": (1, 4), "mlp.c_proj": (4, 1)}
    learned = {
        f"gpt.h.{layer}.{name}.lora_{side}.default.weight": torch.ones(shape)
        for layer in range(30)
        for name, (inputs, outputs) in sizes.items()
        for side, shape in (("A", (LORA_RANK, inputs * width)), ("B", (outputs * width, LORA_RANK)))
    }
    # The longest clip that XTTS v2 trains on.
    write_wav(tmp_path / "reference.wav", torch.zeros(1, 255_995), 22_050)
    file = tmp_path / VOICE_FILE
    write_voice_file(file, learned, tmp_path / "reference.wav", find_base("tiny"), {})
    assert 27e6 < file.stat().st_size <= 30e6
