"""How far preflight's predictions are from the runs that follow: python -m benchmarks.preflight_error.

For each of six settings: what `--preflight` predicts from a few steps, and what a run of some epochs then takes, both
in processes of their own. Time is that of the steps with their loading, as predicted, without evaluations and
checkpoints; memory is the peak of the process, or of the allocator on a GPU.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch
import tyro

from benchmarks.full_base import make_base, make_clips
from utils.config import TrainConfig
from utils.hardware.environment import TORCH_ENVIRONMENT
from utils.performance_utils import log_system_info
from utils.project.paths import Project
from utils.runs.log import read_events
from utils.training.preflight import STEPS, WARMUP, measure_apart

ROOT = Path(__file__).resolve().parent.parent
CELLS: dict[str, dict[str, Any]] = {
    "no switch": {"sdpa": False},
    "SDPA": {"sdpa": True},
    "SDPA + mixed": {"sdpa": True, "mixed_precision": "auto"},
    "all three": {"sdpa": True, "mixed_precision": "auto", "gradient_checkpointing": "full"},
    "SDPA + mixed + LoRA": {"sdpa": True, "mixed_precision": "auto", "lora_rank": 32},
}
TIME, MEMORY = 0.15, 0.10
"""Targets."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure."""

    size: Literal["full", "small"] = "small"
    """full is XTTS v2 itself; small takes minutes."""
    device: Literal["cpu", "cuda"] = "cuda" if torch.cuda.is_available() else "cpu"
    """Where to train."""
    batch_size: int = 4
    """Clips a step."""
    clips: int = 80
    """Of an epoch, 1 to 11.6 s long."""
    epochs: int = 2
    """Of each run."""
    out: Path = ROOT / "benchmarks" / "results" / "preflight_error.json"
    """Results file."""
    cell: str = ""
    """Train with these settings (a file) in this process; used by the benchmark itself."""


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    if settings.cell:
        from utils.training.train import fine_tune

        fine_tune(TrainConfig.load(Path(settings.cell)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        project = Project(name="clips", output=work)
        audio_s = make_clips(project, settings.clips)
        plain = TrainConfig(
            project="clips",
            output=work,
            base=str(make_base(work / "base", settings.size)),
            batch_size=settings.batch_size,
            device=settings.device,
            num_epochs=settings.epochs,
            best_by="loss",
            trim_end=False,
        )
        found = {name: _cell(replace(plain, **changes), audio_s, work) for name, changes in CELLS.items()}
    record = {
        "benchmark": "preflight_error",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": asdict(settings) | {"out": None},
        "system": log_system_info(),
        "cells": found,
        "table": table(found),
    }
    settings.out.parent.mkdir(parents=True, exist_ok=True)
    settings.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(*table(found), sep="\n")


def _cell(config: TrainConfig, audio_s: float, work: Path) -> dict[str, Any]:
    """Prediction and run of one combination."""
    predicted = measure_apart(config, warmup=WARMUP, steps=STEPS)
    assert not predicted.fault, predicted.fault
    file = work / "settings.yaml"
    config.save(file)
    command = [sys.executable, "-m", "benchmarks.preflight_error", f"--cell={file}"]
    subprocess.run(command, cwd=ROOT, env=TORCH_ENVIRONMENT | os.environ, check=True, stdout=subprocess.DEVNULL)
    # Runs are named by their date: the last is this one.
    events = list(read_events(max(config.output.glob("clips/runs/*/events.jsonl"))))
    steps = [event for event in events if event["kind"] == "step"]
    peak = "peak_bytes" if config.device == "cuda" else "peak_rss_bytes"
    peaks = [event[peak] for event in events if event["kind"] == "memory"]
    assert config.num_epochs
    return {
        "predicted_s": config.num_epochs * audio_s / predicted.audio_per_second,
        "run_s": sum(event["step_s"] + event["data_s"] for event in steps),
        "predicted_bytes": predicted.peak_bytes,
        "run_bytes": max(peaks),
    }


def table(found: dict[str, dict[str, Any]]) -> list[str]:
    """Lines for a terminal, with the worst of all."""
    lines = [f"{'':28}{'predicted s':>12}{'run s':>9}{'off':>7}{'predicted GB':>14}{'run GB':>8}{'off':>7}"]
    errors: dict[str, list[float]] = {"s": [], "bytes": []}
    for name, cell in found.items():
        off = {unit: cell[f"predicted_{unit}"] / cell[f"run_{unit}"] - 1 for unit in errors}
        for unit, values in errors.items():
            values.append(abs(off[unit]))
        lines.append(
            f"{name:28}{cell['predicted_s']:12.1f}{cell['run_s']:9.1f}{off['s']:+7.0%}"
            f"{cell['predicted_bytes'] / 1e9:14.2f}{cell['run_bytes'] / 1e9:8.2f}{off['bytes']:+7.0%}"
        )
    medians = {unit: statistics.median(values) for unit, values in errors.items()}
    lines.append(f"time off by {max(errors['s']):.0%} at most, {medians['s']:.0%} in the median; target {TIME:.0%}")
    lines.append(
        f"memory off by {max(errors['bytes']):.0%} at most, {medians['bytes']:.0%} in the median; target {MEMORY:.0%}"
    )
    return lines


if __name__ == "__main__":
    main()
