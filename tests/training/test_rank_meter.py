"""Each process counts what it did in an epoch, and a run's summary holds that against the targets."""

from types import SimpleNamespace

import pytest
import torch

from utils.hardware.gpu import Gpu
from utils.performance_utils import rank_meter
from utils.performance_utils.rank_meter import RankMeter
from utils.runs.list import against_targets


def test_rates_are_over_steps_and_waiting_and_begin_anew():
    meter = RankMeter(torch.device("cpu"), 1)
    for _ in range(2):
        meter.add(step_s=0.75, data_s=0.25, audio_s=20.0, tokens=300)
    meter.sample()
    taken = {"rank": 1, "audio_per_second": 20.0, "tokens_per_second": 300.0, "data_share": 0.25, "gpu_busy": None}
    assert meter.take() == taken
    assert meter.take() == {**taken, "audio_per_second": 0.0, "tokens_per_second": 0.0, "data_share": 0.0}


@pytest.mark.parametrize(("rank", "busy"), [(0, 0.03), (1, 0.8), (2, None)])
def test_the_gpu_of_the_process_is_asked(monkeypatch: pytest.MonkeyPatch, rank, busy):
    found = [
        Gpu(index=index, name="card", total_bytes=2, used_bytes=1, free_bytes=1, utilization=percent)
        for index, percent in enumerate((3, 80, None))
    ]
    monkeypatch.setattr(rank_meter, "find_gpus", lambda: SimpleNamespace(gpus=found))
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("LOCAL_RANK", str(rank))
    meter = RankMeter(torch.device("cuda"), rank)
    meter.sample()
    assert meter.take()["gpu_busy"] == busy


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ([], ""),
        ([{"data_share": 0.031}], "GPU not measured, loading 3.1% (target under 5%: met)"),
        (
            [{"data_share": 0.01, "gpu_busy": 0.95}, {"data_share": 0.2, "gpu_busy": 0.5}],
            "GPU 50% busy (target over 85%: missed), loading 20.0% (target under 5%: missed)",
        ),
        (
            [{"data_share": 0.01, "gpu_busy": 0.91}],
            "GPU 91% busy (target over 85%: met), loading 1.0% (target under 5%: met)",
        ),
        ([{"data_share": "much"}, {"rank": 1}], ""),
    ],
)
def test_the_slowest_process_is_held_against_the_targets(shares, said):
    assert against_targets(shares) == said
