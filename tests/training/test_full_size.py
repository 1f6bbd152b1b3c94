"""Memory of a training step at full size, weights and everything included: minutes for each setting."""

from typing import Any

import pytest

from benchmarks.full_base import make_base, make_clips
from benchmarks.train_step import CELLS
from utils.config import TrainConfig
from utils.project.paths import Project
from utils.training.preflight import measure_apart

GB = 1_000_000_000
MOST = {
    "ours, all three + LoRA": 4.2,
}
"""Cells of the benchmark, and the most GB that a process may take for them with 4 clips of up to 11.6 s: 5 % above what
was measured on a processor with bf16 instructions (docs/performance.md, which has the targets that this misses)."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    work = tmp_path_factory.mktemp("full")
    make_base(work / "base", "full")
    made = Project(name="clips", output=work)
    make_clips(made, 8)
    return made


@pytest.mark.parametrize("cell", MOST)
def test_a_step_at_full_size_takes_no_more_than(project: Project, cell: str) -> None:
    switches = CELLS[cell]
    assert isinstance(switches, dict)
    settings: dict[str, Any] = {"base": str(project.output / "base"), "batch_size": 4, "num_epochs": 100}
    found = measure_apart(
        TrainConfig(project="clips", output=project.output, device="cpu", trim_end=False, **settings, **switches),
        warmup=1,
        steps=1,
    )
    assert not found.fault
    assert not {name: found.switches[name] for name in switches if found.switches.get(name, {}).get("state") == "off"}
    assert found.peak_bytes < MOST[cell] * GB
