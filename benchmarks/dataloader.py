"""Waiting for batches as a share of training, by number of loading processes: python -m benchmarks.dataloader."""

import json
import tempfile
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import torch
import tyro

from benchmarks.full_base import make_base, make_clips
from utils.config import TrainConfig
from utils.performance_utils import log_system_info
from utils.project.paths import Project
from utils.training.preflight import Measurement, measure_apart

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure."""

    size: Literal["full", "small"] = "small"
    """small is the harder case: its steps are so short that loading shows."""
    device: Literal["cpu", "cuda"] = "cuda" if torch.cuda.is_available() else "cpu"
    """Where to train."""
    workers: tuple[int, ...] = (0, 2, 4)
    """Numbers of loading processes."""
    steps: int = 20
    """Steps that are counted."""
    out: Path = ROOT / "benchmarks" / "results" / "dataloader.json"
    """Results file."""


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__)
    batch_size = 8 if settings.device == "cuda" else 4
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        make_clips(Project(name="clips", output=work), settings.steps * batch_size)
        plain = TrainConfig(
            project="clips",
            output=work,
            base=str(make_base(work / "base", settings.size)),
            batch_size=batch_size,
            device=settings.device,
            num_epochs=100,
            trim_end=False,
            sdpa=True,
            mixed_precision="auto",
        )
        found = {
            count: measure_apart(replace(plain, num_workers=count), warmup=3, steps=settings.steps)
            for count in settings.workers
        }
    record = {
        "benchmark": "dataloader",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": {**asdict(settings), "out": None},
        "system": log_system_info(),
        "cells": {str(count): asdict(seen) for count, seen in found.items()},
    }
    settings.out.parent.mkdir(parents=True, exist_ok=True)
    settings.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{settings.size} size, batch {batch_size}, {settings.device}\n{'workers':>8}{'s/step':>9}{'waiting':>9}")
    for count, seen in found.items():
        print(f"{count:8}{_line(seen)}")


def _line(seen: Measurement) -> str:
    return f"   {seen.fault}" if seen.fault else f"{seen.step_s:9.3f}{seen.data_share:9.1%}"


if __name__ == "__main__":
    main()
