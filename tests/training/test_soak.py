"""A long run takes no more memory and no more open files at its end than near its beginning.

The long form's figures: python -m pytest tests/training/test_soak.py -k 2000 --log-cli-level=INFO
"""

import gc
import logging
from pathlib import Path

import psutil
import pytest

from tests.run_logs import events_of
from tests.training.test_run import config_of
from utils.training.train import Progresses, fine_tune

log = logging.getLogger(__name__)


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "settled"), [(72, 36), pytest.param(2_000, 200, marks=pytest.mark.timeout(5_400))])
def test_memory_and_open_files_do_not_grow(project, steps, settled):
    """Saves every 20 steps and evaluates every 6; the short form allows for what libraries take late."""
    process, seen = psutil.Process(), {}

    def watch(done: int, total: int, loss: float) -> None:
        if done in (settled, steps):
            gc.collect()
            seen[done] = process.memory_info().rss, len(list(Path("/proc/self/fd").iterdir()))

    if not Path("/proc/self/fd").is_dir():
        pytest.skip("counts open files as Linux shows them")
    epochs = -(-steps // 6)
    result = fine_tune(
        config_of(project, batch_size=1, num_epochs=epochs, checkpoint_every=20, device="cpu"),
        progress=Progresses(steps=watch),
    )
    (first_bytes, first_files), (last_bytes, last_files) = seen[settled], seen[steps]
    log.info(
        "soak: %d steps; memory %.0f MiB at step %d and %.0f MiB at the end (%+.1f %%); open files %d and %d",
        *(result.num_steps, first_bytes / 2**20, settled, last_bytes / 2**20, 100 * (last_bytes / first_bytes - 1)),
        *(first_files, last_files),
    )
    assert last_bytes < 1.05 * first_bytes
    # The moment of a save has a file more.
    assert last_files <= first_files + 2
    assert len(events_of(result.folder, "step")) == result.num_steps
