"""Parts that the repository keeps finished are taken once, and never over a work folder's own."""

from pathlib import Path

from recipes.starter.codec import load_dvae
from recipes.starter.run import FINISHED, take_finished


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
