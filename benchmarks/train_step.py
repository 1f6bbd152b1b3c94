"""Training speed and memory, ours and stock coqui-tts's in one run: python -m benchmarks.train_step --size full.

Each cell runs in a process of its own, on the same ragged clips, in two rounds of opposite order (ABBA).
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import torch
import tyro

from benchmarks.full_base import SIZES, make_base, make_clips
from benchmarks.limits import Limits, measure_limits
from benchmarks.step_table import Result, Table
from benchmarks.stock import measure_stock
from utils.config import TrainConfig
from utils.hardware.environment import TORCH_ENVIRONMENT
from utils.hardware.processor import cpu
from utils.options import CODE_SAMPLES, DATASET_RATE
from utils.performance_utils import log_system_info
from utils.project.paths import Project
from utils.training.preflight import Measurement, measure_apart

ROOT = Path(__file__).resolve().parent.parent
FAST: dict[str, Any] = {"sdpa": True, "mixed_precision": "bf16"}
CELLS: dict[str, dict[str, Any] | str] = {
    "stock, fp32 (as installed)": "fp32 installed",
    "stock, fp32, all threads": "fp32",
    "stock, bf16, all threads": "bf16",
    "ours, no switch": {"sdpa": False},
    "ours, checkpointing": {"sdpa": False, "gradient_checkpointing": "full"},
    "ours, SDPA": {"sdpa": True},
    "ours, mixed precision": {"sdpa": False, "mixed_precision": "bf16"},
    "ours, SDPA + mixed precision": FAST,
    "ours, all three": FAST | {"gradient_checkpointing": "full"},
    "ours, all three, selective": FAST | {"gradient_checkpointing": "selective"},
    "ours, SDPA + mixed + compile": FAST | {"compile": "default"},
    "ours, SDPA + mixed + graphs": FAST | {"compile": "reduce-overhead"},
    "ours, all three + 8-bit AdamW": FAST | {"gradient_checkpointing": "full", "eight_bit_optimizer": True},
    "ours, all three + LoRA": FAST | {"gradient_checkpointing": "full", "lora_rank": 32},
    "ours, all three, frozen cond.": FAST | {"gradient_checkpointing": "full", "freeze_conditioning": True},
}
"""Stock's precision, or our settings. Importing stock's dataset leaves torch one thread: that is its default."""
REFERENCES = dict(zip(("installed", "fp32", "bf16"), CELLS, strict=False))
"""What the ratios are to, by what their columns are called."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to measure."""

    size: Literal["full", "small"] = "full"
    """full is XTTS v2 itself (441.0 M parameters)."""
    device: Literal["cpu", "cuda"] = "cuda" if torch.cuda.is_available() else "cpu"
    """Where to train."""
    batch_size: int | None = None
    """Clips a step; 4 on a CPU, 8 on CUDA."""
    steps: int | None = None
    """Steps that are counted; 4 on a CPU, 30 on CUDA."""
    warmup: int | None = None
    """Steps before them; 1 on a CPU, 20 on CUDA."""
    rounds: int = 2
    """Times that each cell is measured."""
    only: tuple[str, ...] = ()
    """Cells whose name contains one of these, or ends with it where it ends with $; all when not given."""
    add: bool = False
    """Add rounds to the record that is there, such as of cells that another program disturbed (with --only)."""
    out: Path | None = None
    """Results file; benchmarks/results/train_step_<size>_<device>.json when not given."""
    cell: str = ""
    """Measure one stock cell in this process and print it as JSON; used by the benchmark itself."""
    work: Path = Path()
    """Its folder."""
    project: str = "clips"
    """Its clips."""
    threads: int | None = None
    """That torch computes with; as many as it may use when not given."""

    def resolved(self) -> "Settings":
        """With the numbers of the device filled in."""
        batch, steps, warmup = (8, 30, 20) if self.device == "cuda" else (4, 4, 1)
        out = ROOT / "benchmarks" / "results" / f"train_step_{self.size}_{self.device}.json"
        return replace(
            self,
            batch_size=self.batch_size or batch,
            steps=self.steps or steps,
            warmup=warmup if self.warmup is None else self.warmup,
            out=self.out or out,
        )


def main() -> None:
    settings = tyro.cli(Settings, description=__doc__).resolved()
    if settings.cell:
        sys.stdout.write(json.dumps(asdict(_stock_cell(settings))) + "\n")
        return
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        make_base(work / "base", settings.size)
        assert settings.steps and settings.batch_size and settings.out
        project = Project(name="clips", output=work)
        make_clips(project, settings.steps * settings.batch_size)
        limits, before = measure_limits(settings.device), dict[str, list[Measurement]]()
        # Of a GPU: the cells' own processes need it.
        torch.cuda.empty_cache()
        if settings.add:
            limits, before = earlier(settings, limits)
        settings.out.parent.mkdir(parents=True, exist_ok=True)
        for results in _rounds(settings, work, before):
            # One that is cut off keeps what is measured.
            record = json.dumps(_record(settings, limits, results), indent=1)
            settings.out.write_text(record + "\n", encoding="utf-8")
            print(_title(settings, limits), table(settings, limits, results).text(), sep="\n", flush=True)


def earlier(settings: Settings, limits: Limits) -> tuple[Limits, dict[str, list[Measurement]]]:
    """What the record holds: the limits, each at its highest in either run, and each cell's rounds.

    Raises:
        SystemExit: the record is of another machine, or of other clips and steps.
    """
    assert settings.out
    record = json.loads(settings.out.read_text(encoding="utf-8"))
    same = ("size", "device", "batch_size", "steps", "warmup")
    then, now = record["settings"], asdict(settings)
    if record["limits"]["device"] != limits.device or any(then[name] != now[name] for name in same):
        sys.exit(f"{settings.out}: measured on another machine or with other settings; run it without --add")
    names = {field.name for field in fields(Measurement)}
    rounds = {
        name: [Measurement(**{key: value for key, value in one.items() if key in names}) for one in found]
        for name, found in record["cells"].items()
    }
    flops, bandwidth = (max(record["limits"][name], getattr(limits, name)) for name in ("flops", "bandwidth"))
    return replace(limits, flops=flops, bandwidth=bandwidth), rounds


def cells_of(device: str, only: tuple[str, ...] = ()) -> list[Result]:
    """The cells of a device, none measured yet.

    Args:
        device: cpu or cuda. A CPU has no 8-bit AdamW and no CUDA graphs: no such cells.
        only: parts of names; all cells when empty.
    """
    found = []
    for name, what in CELLS.items():
        changes = what if isinstance(what, dict) else {}
        is_idle = device == "cpu" and (
            changes.get("eight_bit_optimizer") or changes.get("compile") == "reduce-overhead"
        )
        if not is_idle and (not only or any(part in f"{name}$" for part in only)):
            found.append(Result(name=name, changes=changes))
    return found


def _rounds(settings: Settings, work: Path, before: dict[str, list[Measurement]]) -> Iterator[list[Result]]:
    """The results after each cell, those of `before` first."""
    names = [result.name for result in cells_of(settings.device, settings.only)]
    results = {
        result.name: result for result in cells_of(settings.device) if result.name in names or result.name in before
    }
    for name, earlier_rounds in before.items():
        results[name].rounds += earlier_rounds
    for number in range(settings.rounds):
        for name in names if number % 2 == 0 else reversed(names):
            begin = time.perf_counter()
            found = measure_cell(settings, CELLS[name], work)
            results[name].rounds.append(found)
            said = found.fault or f"{found.step_s:.2f} s a step, {found.cpu_s / max(found.steps, 1):.2f} CPU-s"
            print(f"round {number + 1}: {name}: {said} ({time.perf_counter() - begin:.0f} s in all)", flush=True)
            yield [one for one in results.values() if one.rounds]


def needs_bf16(what: dict[str, Any] | str) -> bool:
    """Whether a cell computes its products in bf16."""
    return what == "bf16" if isinstance(what, str) else what.get("mixed_precision") == "bf16"


def measure_cell(settings: Settings, what: dict[str, Any] | str, work: Path) -> Measurement:
    """Measure one cell in a process of its own.

    Args:
        settings: resolved; which clips, how many steps.
        what: stock's precision, or our settings.
        work: folder with the base and the clips.
    """
    assert settings.warmup is not None and settings.steps and settings.batch_size
    if settings.device == "cpu" and cpu().emulates_bf16 and needs_bf16(what):
        return Measurement(fault="this processor has no bf16 units, and would take many times as long without")
    if isinstance(what, dict):
        config = TrainConfig(
            project=settings.project,
            output=work,
            threads=settings.threads,
            base=str(work / "base"),
            batch_size=settings.batch_size,
            device=settings.device,
            num_epochs=100,
            # All codes, as stock: what the random base makes of a clip often ends with equal ones.
            trim_end=False,
            **what,
        )
        found = measure_apart(config, warmup=settings.warmup, steps=settings.steps)
        wanted = found.audio_s * DATASET_RATE / CODE_SAMPLES
        assert found.fault or sum(found.codes) >= wanted, f"{sum(found.codes)} codes of {wanted:.0f} were trained on"
        return found
    flags = [f"--{name}={getattr(settings, name)}" for name in ("size", "device", "steps", "warmup", "project")]
    flags += [f"--batch-size={settings.batch_size}", f"--cell={what}", f"--work={work}"]
    command = [sys.executable, "-m", "benchmarks.train_step", *flags]
    # The environment that our commands set helps stock as well: it is not what is compared.
    environment = {**({} if what.endswith("installed") else TORCH_ENVIRONMENT), **os.environ}
    if settings.threads:
        environment["OMP_NUM_THREADS"] = str(settings.threads)
    if settings.device == "cpu":
        # Stock takes a GPU wherever it sees one.
        environment["CUDA_VISIBLE_DEVICES"] = ""
    child = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    if child.returncode:
        return Measurement(fault=(child.stderr.strip().splitlines() or ["it failed"])[-1])
    return Measurement(**json.loads(child.stdout.strip().splitlines()[-1]))


def _stock_cell(settings: Settings) -> Measurement:
    assert settings.batch_size and settings.warmup is not None and settings.steps
    return measure_stock(
        settings.work / "base",
        Project(name=settings.project, output=settings.work),
        precision=settings.cell.split()[0],
        all_threads=not settings.cell.endswith("installed"),
        batch_size=settings.batch_size,
        warmup=settings.warmup,
        steps=settings.steps,
    )


def table(settings: Settings, limits: Limits, results: list[Result]) -> Table:
    """The measurements, ready to be written as text or for the docs."""
    return Table(
        device=settings.device, size=SIZES[settings.size], limits=limits, references=REFERENCES, results=results
    )


def _title(settings: Settings, limits: Limits) -> str:
    rounds = f"{settings.rounds} rounds{' more of some cells' if settings.add else ''}"
    rates = f"{limits.products} products {limits.flops / 1e12:.2f} TFLOP/s, copies {limits.bandwidth / 1e9:.0f} GB/s"
    return (
        f"{settings.size} size, batch {settings.batch_size}, {limits.device}, torch {torch.__version__}, "
        f"{rounds}, ABBA; {rates}"
    )


def _record(settings: Settings, limits: Limits, results: list[Result]) -> dict[str, Any]:
    packages = ("torch", "transformers", "accelerate", "coqui-tts", "coqui-tts-trainer")
    shown = dict(_versions(packages))
    return {
        "benchmark": "train_step",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": json.loads(json.dumps(asdict(settings), default=str)) | {"out": None, "work": None},
        "system": log_system_info(),
        "versions": shown,
        "limits": asdict(limits),
        "cells": {result.name: plain_rounds(result.rounds) for result in results},
        "table": [_title(settings, limits), *table(settings, limits, results).text().splitlines()],
        "markdown": table(settings, limits, results).markdown().splitlines(),
    }


def plain_rounds(rounds: Sequence[Measurement]) -> list[dict[str, Any]]:
    """JSON values of a cell's rounds; what the switches did is left to the first one where later ones saw the same."""
    found = [{**asdict(one), "audio_per_second": one.audio_per_second} for one in rounds]
    for later in found[1:]:
        if later["switches"] == found[0]["switches"]:
            later["switches"] = {}
    return found


def _versions(packages: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name in packages:
        yield name, version(name)


if __name__ == "__main__":
    main()
