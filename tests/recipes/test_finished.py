"""Parts that the repository keeps finished are taken once, and never over a work folder's own."""

from pathlib import Path

import torch

from recipes.starter import gpt
from recipes.starter.codec import load_dvae
from recipes.starter.run import FINISHED, take_begun, take_finished
from utils.model.base import Base
from utils.model.xtts import load_gpt


def test_a_finished_part_is_taken_and_can_be_used(tmp_path: Path) -> None:
    assert take_finished("dvae", tmp_path)
    dvae, mel_stats = load_dvae(tmp_path / "dvae")
    assert dvae.codebook.embed.shape[1] == 1024 and mel_stats.shape == (80,)


def test_an_own_result_is_not_replaced_and_other_stages_run(tmp_path: Path) -> None:
    (tmp_path / "speaker").mkdir()
    (tmp_path / "speaker" / "quality.json").write_text("{}")
    assert not take_finished("speaker", tmp_path)
    assert not take_finished("corpus", tmp_path)
    assert sorted(folder.name for folder in FINISHED.iterdir()) == ["dvae", "speaker"]


def test_a_gpt_that_was_begun_goes_on_in_a_new_work_folder_only(tmp_path: Path) -> None:
    assert take_finished("dvae", tmp_path)
    take_begun(tmp_path)
    begun = gpt.read_weights(tmp_path / gpt.BEGUN)
    gpt.make_seed_base(tmp_path, tmp_path / "seed_base")
    seed = load_gpt(Base(tmp_path / "seed_base")).state_dict()
    assert all(torch.equal(seed[name], tensor.float()) for name, tensor in begun.items())
    (tmp_path / gpt.BEGUN).unlink()
    take_begun(tmp_path)
    assert not (tmp_path / gpt.BEGUN).exists(), "this folder's own training has begun"
