"""What all tests share: no test touches the user's own base models, and tests that need a GPU skip without one."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from utils.paths import BASES_VARIABLE

MEMORY_DISK, ITS_BYTES, MEMORY_BYTES = Path("/dev/shm"), 8e9, 16e9

# Before torch is loaded: threads that wait by spinning take the other processes' time on a shared machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Tests delete hundreds of checkpoints, which takes seconds each on a disk that tells its drive of freed blocks.
if (
    MEMORY_DISK.is_dir()
    and shutil.disk_usage(MEMORY_DISK).free > ITS_BYTES
    and psutil.virtual_memory().available > MEMORY_BYTES
):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY_DISK))


@pytest.fixture(scope="session", autouse=True)
def own_bases_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Base models made or fetched by tests go to a temporary folder, one for the whole session."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(BASES_VARIABLE, str(tmp_path_factory.mktemp("bases")))
        yield


@pytest.hookimpl(trylast=True)  # after -m has chosen
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked gpu where torch sees no CUDA device."""
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch  # seconds to load, so only when a GPU test is about to run

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
