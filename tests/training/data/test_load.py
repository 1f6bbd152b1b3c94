"""Clips end with the first code of their closing silence; runs of an earlier version keep what they did."""

import numpy as np
import pytest

from utils.config import TrainConfig
from utils.training.data.codes import up_to_silence


@pytest.mark.parametrize(
    ("codes", "kept"),
    [([5, 6, 7, 9, 9, 9], 4), ([5, 9, 9, 6, 9], 5), ([5, 6, 7], 3), ([9, 9, 9], 1), ([4], 1)],
)
def test_of_equal_codes_at_the_end_one_is_kept(codes: list[int], kept: int) -> None:
    assert up_to_silence(np.array(codes, dtype=np.int16)).tolist() == codes[:kept]


@pytest.mark.parametrize(("saved", "resumed"), [("own", "own_masked"), (None, "own_masked"), ("other", "other")])
def test_a_run_of_an_earlier_version_keeps_its_conditioning_and_its_silence(tmp_path, saved, resumed) -> None:
    settings = TrainConfig(project="voice", conditioning=saved)
    settings.save(tmp_path / "config.yaml")
    now = TrainConfig.load(tmp_path / "config.yaml")
    assert (now.conditioning, now.trim_end) == (saved, True)
    earlier = {name: value for name, value in settings.plain().items() if name != "trim_end"}
    then = TrainConfig.from_saved(earlier, where="config.yaml")
    assert (then.conditioning, then.trim_end) == (resumed, False)
