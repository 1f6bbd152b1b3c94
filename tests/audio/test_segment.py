"""Parts of a dataset wav are exact, and never quietly shorter than asked for."""

from pathlib import Path

import pytest
import soundfile
import torch

from tests.audio.signals import tone
from utils.audio.decode import decode
from utils.audio.segment import num_samples, read_segment
from utils.audio.write import write_wav
from utils.errors import UserError
from utils.options import DATASET_RATE


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    write_wav(tmp_path / "clip.wav", tone(1, DATASET_RATE), DATASET_RATE)
    return tmp_path / "clip.wav"


@pytest.mark.parametrize(("start", "length"), [(0, 1), (0, DATASET_RATE), (1_234, 5_678), (DATASET_RATE - 1, 1)])
def test_a_part_is_what_the_whole_has_there(clip: Path, start: int, length: int) -> None:
    whole, _ = decode(clip)
    part = read_segment(clip, start, length)
    assert part.dtype == torch.float32
    assert torch.equal(part, whole[:, start : start + length])


def test_the_length_comes_from_the_header(clip: Path) -> None:
    assert num_samples(clip) == DATASET_RATE


def test_a_part_beyond_the_end_is_refused(clip: Path) -> None:
    with pytest.raises(UserError, match="has 22050 samples, not samples 22000 to 23000"):
        read_segment(clip, 22_000, 1_000)


def test_a_file_that_is_not_from_a_dataset_is_refused(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", tone(1, 16_000)[0].numpy(), 16_000)
    with pytest.raises(UserError, match="is 16000 Hz with 1 channels"):
        read_segment(tmp_path / "a.wav", 0, 10)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_segment(tmp_path / "a.wav", 0, 10)
    with pytest.raises(UserError, match="cannot be read"):
        num_samples(tmp_path / "a.wav")
