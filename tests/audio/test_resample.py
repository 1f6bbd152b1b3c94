"""Resampling keeps the sound, removes what the new rate cannot hold, and stays small."""

import resource

import pytest
import torch
from torchaudio.transforms import Resample

from tests.audio.signals import tone
from utils.audio.resample import resample


def _stock(rate: int, target: int) -> Resample:
    return Resample(
        rate,
        target,
        lowpass_filter_width=64,
        rolloff=0.9475937167399596,
        resampling_method="sinc_interp_kaiser",
        beta=14.769656459379492,
    )


@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 44_100, 88_200])
@pytest.mark.parametrize("count", [1, 999, 20_206, 20_480, 50_001])
def test_several_samples_at_once_are_those_of_torchaudio(rate, count):
    wav = torch.randn(1, count, generator=torch.Generator().manual_seed(1))
    ours, stock = resample(wav, rate, 22_050), _stock(rate, 22_050)(wav)
    torch.testing.assert_close(ours, stock, atol=1e-6, rtol=1e-6)
    # The order of sums belongs to the processor's kernels: with AVX2 it is known to be the same.
    if torch.backends.cpu.get_cpu_capability() == "AVX2":
        assert torch.equal(ours, stock)


@pytest.mark.parametrize("rate", [22_050, 44_100, 48_000])
@pytest.mark.parametrize("count", [1, 440, 441, 442, 999, 50_001])
def test_kernels_without_their_zeros_give_what_torchaudio_gives(rate, count):
    wav = 0.2 * torch.randn(1, count, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(resample(wav, rate, 16_000), _stock(rate, 16_000)(wav), atol=1e-6, rtol=0)


def test_equal_rates_change_nothing():
    wav = tone(0.1, 22_050)
    assert resample(wav, 22_050, 22_050) is wav


@pytest.mark.parametrize("rate", [8_000, 44_100, 48_000])
def test_long_audio_in_blocks_equals_one_piece(rate, monkeypatch):
    wav = torch.randn(1, 7 * rate + 123, generator=torch.Generator().manual_seed(1))
    whole = resample(wav, rate, 22_050)
    monkeypatch.setattr("utils.audio.resample._BLOCK_SECONDS", 1)
    blocks = resample(wav, rate, 22_050)
    assert blocks.shape == whole.shape
    torch.testing.assert_close(blocks, whole, atol=1e-5, rtol=0)


def test_rates_without_a_common_divisor_need_no_gigabytes():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    resampled = resample(tone(1, 44_099), 44_099, 22_050)
    assert abs(resampled.shape[1] - 22_050) <= 8
    torch.testing.assert_close(resampled[:, 1_000:5_000], tone(1, 22_050)[:, 1_000:5_000], atol=1e-2, rtol=0)
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown_mib < 500
