"""Loader settings follow the data and the machine, and the user's own choice wins."""

import tempfile

import pytest

from utils.hardware import loader
from utils.hardware.loader import loader_settings
from utils.hardware.resources import Memory

GB = 1_000_000_000


def machine(monkeypatch: pytest.MonkeyPatch, *, cpus: int = 16, free: int = 64 * GB, shared: int = 32 * GB) -> None:
    """Have the settings chosen for a machine of this size."""
    found = Memory(total_bytes=free, available_bytes=free)
    monkeypatch.setattr(loader, "memory", lambda: found)
    monkeypatch.setattr(loader, "usable_cpus", lambda: cpus)
    monkeypatch.setattr(loader, "shared_memory_free", lambda: shared)
    monkeypatch.setattr("platform.system", lambda: "Linux")


@pytest.fixture(autouse=True)
def usual_temporary_folder(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")


@pytest.mark.parametrize(
    ("given", "size", "workers", "prefetch"),
    [
        ({"device": "cpu"}, {}, 0, None),
        ({"device": "cuda"}, {}, 4, 2),
        ({"device": "cuda:1", "num_clips": 50}, {}, 2, 2),
        ({"device": "cuda", "dataset_bytes": 40 * GB}, {}, 8, 4),
        ({"device": "cuda"}, {"cpus": 3}, 2, 2),
        ({"device": "cuda"}, {"cpus": 1}, 1, 2),
        ({"device": "cuda"}, {"free": 4 * GB}, 2, 2),
        ({"device": "cuda"}, {"shared": 64_000_000}, 1, 2),
        ({"device": "cuda"}, {"shared": 1_000_000}, 0, None),
        ({"device": "cuda", "num_workers": 7}, {}, 7, 2),
        ({"device": "cuda", "num_workers": 0}, {}, 0, None),
    ],
)
def test_processes_that_load(monkeypatch, given, size, workers, prefetch):
    machine(monkeypatch, **size)
    settings, off = loader_settings(**({"num_clips": 10_000} | given))
    on_gpu = given["device"].startswith("cuda")
    assert list(settings.values()) == [workers, prefetch, on_gpu, workers > 0] and not off


@pytest.mark.parametrize(
    ("given", "off"),
    [
        ({"device": "cpu", "pin_memory": True}, "pin_memory: training runs on the CPU"),
        ({"device": "cpu", "prefetch_factor": 4}, "prefetch_factor: no process loads ahead"),
        ({"device": "cuda", "num_workers": 0, "prefetch_factor": 4}, "prefetch_factor: no process"),
        ({"device": "cuda", "pin_memory": True, "prefetch_factor": 4}, ""),
        ({"device": "cpu", "pin_memory": False}, ""),
    ],
)
def test_a_choice_that_cannot_be_had_is_told(monkeypatch, given, off):
    machine(monkeypatch)
    settings, faults = loader_settings(**({"num_clips": 10_000} | given))
    assert off in "".join(faults) and bool(faults) == bool(off)
    assert settings["pin_memory"] == (given["device"] == "cuda")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_this_machine_has_settings_that_a_loader_takes(device):
    from torch.utils.data import DataLoader

    settings, _ = loader_settings(num_clips=1_000, device=device)
    loader = DataLoader([0], **settings)
    assert {name: getattr(loader, name) for name in settings} == settings


def test_a_temporary_folder_whose_path_is_too_long_for_sockets_loads_in_the_process_itself(monkeypatch):
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr(tempfile, "tempdir", "/" + "x" * 74)
    assert loader_settings(num_clips=10, device="cpu", num_workers=2)[0]["num_workers"] == 2
    monkeypatch.setattr(tempfile, "tempdir", "/" + "x" * 75)
    settings, off = loader_settings(num_clips=10, device="cpu", num_workers=2)
    assert settings["num_workers"] == 0 and "num_workers" in off[0] and "TMPDIR" in off[0]
