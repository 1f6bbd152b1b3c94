"""Finished parts are taken from the starter that ships, once, and never over a work folder's own."""

import json
from pathlib import Path

import torch

from recipes.starter import gpt
from recipes.starter.codec import load_dvae
from recipes.starter.run import take_finished
from recipes.starter.speaker_encoder import new_speaker_encoder
from recipes.starter.speakers import SHAPE
from utils.bases.base import Base
from utils.bases.find import find_base
from utils.bases.loading import load_gpt, load_speaker_encoder
from utils.model.weights import read_weights, write_weights


def test_a_finished_part_is_taken_and_can_be_used(tmp_path: Path) -> None:
    assert take_finished("dvae", tmp_path)
    dvae, mel_stats = load_dvae(tmp_path / "dvae")
    assert dvae.codebook.embed.shape[1] == 1024 and mel_stats.shape == (80,)
    assert json.loads((tmp_path / "dvae" / "quality.json").read_text())["codes_used"] > 1000


def test_the_finished_speaker_encoder_is_the_starters(tmp_path: Path) -> None:
    assert take_finished("speaker", tmp_path) and not take_finished("speaker", tmp_path)
    encoder, shipped = new_speaker_encoder(SHAPE), load_speaker_encoder(find_base("starter")).state_dict()
    encoder.load_state_dict(read_weights(tmp_path / "speaker" / "speaker.safetensors"))
    assert all(torch.equal(tensor, shipped[name]) for name, tensor in encoder.state_dict().items())


def test_an_own_result_is_not_replaced_and_other_stages_run(tmp_path: Path) -> None:
    (tmp_path / "speaker").mkdir()
    (tmp_path / "speaker" / "quality.json").write_text("{}")
    assert not take_finished("speaker", tmp_path)
    assert not take_finished("corpus", tmp_path)
    assert [path.name for path in (tmp_path / "speaker").iterdir()] == ["quality.json"]


def test_the_gpt_that_ships_can_be_trained_on(tmp_path: Path) -> None:
    assert take_finished("dvae", tmp_path)
    shipped = find_base("starter")
    gpt.make_seed_base(tmp_path, tmp_path / "seed_base", begin_with=shipped.folder)
    seed, begun = (load_gpt(base).state_dict() for base in (Base(tmp_path / "seed_base"), shipped))
    assert all(torch.equal(seed[name], tensor) for name, tensor in begun.items())


def test_a_gpt_can_begin_with_another_bases_weights(tmp_path: Path) -> None:
    assert take_finished("dvae", tmp_path)
    gpt.make_seed_base(tmp_path, tmp_path / "random")
    changed = read_weights(tmp_path / "random" / "model.safetensors")
    changed["gpt.mel_head.weight"] += 1
    write_weights(tmp_path / "random" / "model.safetensors", changed)
    gpt.make_seed_base(tmp_path, tmp_path / "begun", begin_with=tmp_path / "random")
    begun, former = (load_gpt(Base(tmp_path / name)).state_dict() for name in ("begun", "random"))
    assert all(torch.equal(begun[name], tensor) for name, tensor in former.items())
